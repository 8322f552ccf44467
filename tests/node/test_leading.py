"""What a node does with its partitions as the metadata log goes on."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pykcoord._native import Node
from pykcoord.config import Config
from pykcoord.log.protocol import Append, Taken
from pykcoord.log.replicas import ReplicaDirectory
from pykcoord.node.image import Image
from pykcoord.node.joining import Timing
from pykcoord.node.leading import Leadership
from pykcoord.node.metadata_records import ConfigSet, PartitionChanged, PartitionSet, TopicSet
from pykcoord.node.store import NodeLog

from .led import RECORD

_ID, _NODE, _TOPIC = uuid.UUID(int=5), 9, 2
_PLACED = PartitionSet(_ID, 0, (9, 1), (9, 1), (), (), 9, 3, 1, 0)


class _Runtime:
    """In the place of a Runtime: what is served."""

    def __init__(self) -> None:
        self.node = Node(Config().native(), 1, bytes(32))
        self.served: dict[int, int] = {}
        self.on_shard_lost: Any = None

    def adopt(self, shard: int, loader: Any, next_offset: int, epoch: int = 0) -> None:
        taken = Taken(loader, next_offset, epoch)
        self.served[shard] = taken.epoch

    def leave(self, shard: int) -> None:
        self.served.pop(shard, None)

    release = leave


class _Following:
    def __init__(self) -> None:
        self.high_watermarks: dict[int, int] = {}
        self.sources: dict[int, Any] = {}

    async def follow(self, sources: dict[int, Any]) -> None:
        self.sources = dict(sources)


class _Cluster:
    """One partition, with replicas here and at broker 1."""

    def __init__(self, path: Path) -> None:
        self.directory = ReplicaDirectory.open(path, 1 << 20)
        self.directory.begin("cluster", _NODE, _ID, 1, str(uuid.UUID(int=1)))
        self.log = NodeLog(self.directory, 1, lambda broker, epoch: True)
        self.image = Image()
        self.image.apply(TopicSet("__consumer_offsets", _ID))
        self.runtime, self.following = _Runtime(), _Following()
        runtime: Any = self.runtime
        following: Any = self.following
        quorum: Any = SimpleNamespace(image=self.image)
        self.leadership = Leadership(
            runtime, self.log, self.directory, following, quorum, _ID, _NODE, Timing()
        )
        self.settled = asyncio.Event()
        self.leadership.on_settled = self.settled.set

    async def says(self, *records: Any) -> None:
        """The metadata log goes on, and the node has done what it says."""
        for record in records:
            self.image.apply(record)
        self.settled.clear()
        self.leadership.look()
        await self.settled.wait()


def _run(path: Path, story: Callable[[_Cluster], Coroutine[Any, Any, None]]) -> None:
    async def told() -> None:
        cluster = _Cluster(path)
        cluster.leadership.start()
        try:
            async with asyncio.timeout(60):
                await story(cluster)
        finally:
            await cluster.leadership.close()
            cluster.log.close()
            cluster.directory.close()

    asyncio.run(told())


def _changed(**changes: Any) -> PartitionChanged:
    return PartitionChanged(_ID, 0, None, None, None, None, None, None)._replace(**changes)


def test_a_setting_of_the_topic_counts_from_when_it_is_set(tmp_path: Path) -> None:
    async def story(cluster: _Cluster) -> None:
        await cluster.says(_PLACED._replace(isr=(9,)))
        partition = cluster.log.led[0].partition
        acknowledged: list[Any] = []
        append = Append(0, 0, 1, 1_000, 1_000, RECORD)
        await cluster.says(ConfigSet(_TOPIC, "__consumer_offsets", "min.insync.replicas", "2"))
        assert partition.is_under_min_isr
        cluster.log.append([append], lambda committed, failed: acknowledged.append(committed))
        while partition.synced < 1:
            await asyncio.sleep(0)
        assert (acknowledged, partition.high_watermark) == ([], 0)
        await cluster.says(ConfigSet(_TOPIC, "__consumer_offsets", "min.insync.replicas", "1"))
        assert acknowledged == [[(0, 1)]], "at once"

    _run(tmp_path / "d", story)


def test_a_partition_is_led_followed_and_given_up_as_the_log_says(tmp_path: Path) -> None:
    async def story(cluster: _Cluster) -> None:
        await cluster.says(_PLACED._replace(isr=(9,)))
        while cluster.runtime.served != {0: 3}:
            await asyncio.sleep(0)
        await cluster.says(_changed(leader=1, isr=(9, 1)))
        assert (cluster.runtime.served, dict(cluster.log.led)) == ({}, {})
        assert cluster.following.sources[0] == (1, 4)
        await cluster.says(_changed(leader=9, isr=(9,)))
        while cluster.runtime.served != {0: 5}:
            await asyncio.sleep(0)
        assert cluster.following.sources == {}
        cluster.leadership.allow(False)
        assert (cluster.runtime.served, dict(cluster.log.led)) == ({}, {})
        await cluster.says(_changed(replicas=(1,), leader=1))
        assert cluster.directory.on_disk() == []

    _run(tmp_path / "d", story)
