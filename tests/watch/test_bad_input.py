"""What a watcher may meet that it must not believe, or not pass over in silence."""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from support.scripted_broker import OFFSETS, ScriptedCluster
from support.server import PykcoordServer

from pykcoord import Config, Coordinator
from pykcoord.errors import LogError, LogLockedError
from pykcoord.kafka import OtherClusterError
from pykcoord.log import LogReader, verify
from pykcoord.watch import Watcher
from pykcoord.watch import watcher as watcher_module

from .conftest import WAIT_S, committed, new_cluster, settings, until, watching
from .offsets_log import commit

pytestmark = pytest.mark.timeout(120)


async def _until_it_ends(
    cluster: ScriptedCluster, path: Path | None, change: Callable[[], object]
) -> None:
    """Raises what ends the watching after the change."""
    watcher = await Watcher.open(settings(cluster.bootstrap), path)
    try:
        running = asyncio.create_task(watcher.run())
        change()
        watcher.cluster.doubt()
        await asyncio.wait_for(running, WAIT_S)
    finally:
        await watcher.close()


def test_a_topic_that_was_made_again_is_another_one(tmp_path: Path) -> None:
    async def story() -> None:
        cluster = new_cluster()
        async with cluster.running():
            commit(cluster.partition(OFFSETS, 0), "before", 1)
            with pytest.raises(OtherClusterError, match="deleted, and made again"):
                await _until_it_ends(
                    cluster, tmp_path / "copy", lambda: cluster.add_topic(OFFSETS, 1)
                )
            commit(cluster.partition(OFFSETS, 0), "after", 2)
            async with watching(cluster, tmp_path / "copy") as watcher:
                assert committed(watcher) == {("after", "orders", 0): 2}

    asyncio.run(story())
    assert list((tmp_path / "copy").glob("before-*/watch.json"))


def test_another_cluster_at_the_address_is_not_read(tmp_path: Path) -> None:
    async def story() -> None:
        cluster = new_cluster()
        async with cluster.running():
            commit(cluster.partition(OFFSETS, 0), "billing", 1)
            async with watching(cluster, tmp_path / "copy"):
                pass
            kept = (tmp_path / "copy" / "watch.json").read_bytes()
            cluster.cluster_id = "other"
            with pytest.raises(OtherClusterError, match="has the id other, not scripted"):
                await Watcher.open(settings(cluster.bootstrap), tmp_path / "copy")
            assert (tmp_path / "copy" / "watch.json").read_bytes() == kept

    asyncio.run(story())


def test_a_cluster_that_becomes_another_ends_the_watching() -> None:
    async def story() -> None:
        cluster = new_cluster()
        async with cluster.running():
            with pytest.raises(OtherClusterError, match="has the id other"):
                await _until_it_ends(cluster, None, lambda: setattr(cluster, "cluster_id", "other"))

    asyncio.run(story())


def test_a_topic_with_fewer_partitions_than_the_copy(tmp_path: Path) -> None:
    async def story() -> None:
        cluster = new_cluster(partitions=4)
        async with cluster.running():
            async with watching(cluster, tmp_path / "copy"):
                pass
            topic_id, partitions = cluster.topics[OFFSETS]
            cluster.topics[OFFSETS] = topic_id, {0: partitions[0]}
            with pytest.raises(LogError, match=r"4 partitions .* tells of 1; nothing was changed"):
                await Watcher.open(settings(cluster.bootstrap), tmp_path / "copy")

    asyncio.run(story())


def test_a_log_that_goes_on_while_its_broker_reads_it(caplog: pytest.LogCaptureFixture) -> None:
    """The high watermark of an answer is older than its records then."""

    async def story() -> None:
        cluster = new_cluster()
        partition = cluster.partition(OFFSETS, 0)
        partition.lags = 1
        async with cluster.running():
            commit(partition, "billing", 1)
            commit(partition, "billing", 2)
            async with watching(cluster, None) as watcher:
                assert committed(watcher) == {("billing", "orders", 0): 2}

    with caplog.at_level(logging.WARNING):
        asyncio.run(story())
    assert caplog.text == ""


def test_records_of_unknown_types_are_kept_and_passed_over(tmp_path: Path) -> None:
    async def story() -> None:
        cluster = new_cluster()
        partition = cluster.partition(OFFSETS, 0)
        async with cluster.running():
            commit(partition, "", 0, key=struct.pack(">h", 999) + b"from the future")
            commit(partition, "billing", 2)
            async with watching(cluster, tmp_path / "copy") as watcher:
                assert committed(watcher) == {("billing", "orders", 0): 2}
                assert watcher.state is not None
                assert watcher.state.partitions[0].broken is None

    asyncio.run(story())
    assert b"from the future" in b"".join(LogReader.open(tmp_path / "copy").read(0))


def test_a_record_that_cannot_be_read_stops_its_partition_only(tmp_path: Path) -> None:
    async def story() -> None:
        cluster = new_cluster(partitions=2)
        async with cluster.running():
            commit(cluster.partition(OFFSETS, 0), "billing", 2)
            commit(cluster.partition(OFFSETS, 0), "", 0, key=struct.pack(">hh", 1, 300) + b"short")
            commit(cluster.partition(OFFSETS, 0), "billing", 3)
            commit(cluster.partition(OFFSETS, 1), "shipping", 4)
            async with watching(cluster, tmp_path / "copy") as watcher:
                expected = {("billing", "orders", 0): 2, ("shipping", "orders", 0): 4}
                assert committed(watcher) == expected
                assert watcher.state is not None
                assert watcher.state.partitions[0].broken is not None
                assert watcher.follower is not None
                assert watcher.follower.partitions[0].copy.next_offset == 3

    asyncio.run(story())


@pytest.mark.parametrize(
    "damage",
    [
        lambda batch: batch[:-1] + bytes([batch[-1] ^ 1]),
        lambda batch: batch[:8] + b"\x7f\xff\xff\xff" + batch[12:],
        lambda batch: b"\xff" * len(batch),
        lambda batch: b"\0" * 4 + batch[4:8][::-1] + batch[8:],
    ],
    ids=["CRC", "length", "ones", "offset"],
)
def test_what_is_no_batch_is_neither_kept_nor_replayed(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    async def story() -> None:
        cluster = new_cluster()
        partition = cluster.partition(OFFSETS, 0)
        async with cluster.running():
            commit(partition, "billing", 1)
            commit(partition, "billing", 2)
            async with watching(cluster, tmp_path / "copy") as watcher:
                commit(partition, "billing", 3)
                partition.damage = damage
                cluster.notify()
                assert watcher.follower is not None
                await until(lambda: watcher.follower.partitions[0].trouble is not None)
                assert committed(watcher) == {("billing", "orders", 0): 2}
                partition.damage = None
                await until(lambda: committed(watcher) == {("billing", "orders", 0): 3})

    asyncio.run(story())
    assert verify(tmp_path / "copy").sound


def test_a_directory_is_of_one_watcher_and_not_served(tmp_path: Path) -> None:
    async def story() -> None:
        cluster = new_cluster()
        async with cluster.running(), watching(cluster, tmp_path / "copy"):
            with pytest.raises(LogLockedError):
                await Watcher.open(settings(cluster.bootstrap), tmp_path / "copy")
            (tmp_path / "served").mkdir()
            (tmp_path / "served" / f"{OFFSETS}-0").mkdir()
            with pytest.raises(LogError, match="no copy of a watched cluster"):
                await Watcher.open(settings(cluster.bootstrap), tmp_path / "served")

    asyncio.run(story())


def test_a_copy_that_pykcoord_has_served_is_left_alone(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    cluster = new_cluster()
    commit(cluster.partition(OFFSETS, 0), "billing", 5)

    async def story() -> None:
        async with cluster.running(), watching(cluster, copy):
            pass

    asyncio.run(story())
    server = PykcoordServer(copy, settings={"offsets.topic.num.partitions": "1"})
    server.start().stop()
    assert f"{copy}: what `pykcoord watch` keeps of a cluster. What is" in server.stderr()
    asyncio.run(story())  # nothing was written
    config = Config(offsets_topic_num_partitions=1)
    with Coordinator(copy, config=config) as coordinator:
        assert coordinator.offsets().num_rows == 1
        with coordinator.join("other", topics=["orders"]) as member:
            member.commit({("orders", 0): 3})
    before = {path: path.read_bytes() for path in copy.rglob("*.log")}
    with pytest.raises(LogError, match="has served this directory since"):
        asyncio.run(story())
    assert {path: path.read_bytes() for path in copy.rglob("*.log")} == before


def test_a_partition_without_a_leader_keeps_nobody_waiting(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watcher_module, "_PROGRESS_SECONDS", 0.2)

    async def story() -> None:
        cluster = new_cluster(partitions=2)
        cluster.partition(OFFSETS, 1).leader = -1
        async with cluster.running():
            commit(cluster.partition(OFFSETS, 0), "billing", 2)
            commit(cluster.partition(OFFSETS, 1), "unread", 2)
            async with watching(cluster, tmp_path / "copy", request_timeout_ms="500") as watcher:
                assert committed(watcher) == {("billing", "orders", 0): 2}
                cluster.partition(OFFSETS, 1).leader = 1
                await until(lambda: ("unread", "orders", 0) in committed(watcher))

    with caplog.at_level(logging.INFO, "pykcoord.watch"):
        asyncio.run(story())
    said = [one.getMessage() for one in caplog.records if one.name == "pykcoord.watch"]
    assert said[0].startswith("connecting to 127.0.0.1:")
    assert said[1] == "reading 2 partitions of __consumer_offsets of cluster scripted (1 broker)"
    assert "read 1 record of __consumer_offsets, 0 to go" in said[2:4], "who waits is told"
    assert any(one.startswith("1 partitions of __consumer_offsets cannot be read") for one in said)


def test_lag_is_not_known_where_the_end_is_not(tmp_path: Path) -> None:
    async def story() -> None:
        cluster = new_cluster(brokers=2)
        cluster.partition("orders", 0).start = 9
        cluster.partition("orders", 1).start = 4
        async with cluster.running():
            offsets = cluster.partition(OFFSETS, 0)
            offsets.leader = 1
            commit(offsets, "billing", 7, at=0)
            commit(offsets, "billing", 5, at=1)
            commit(offsets, "billing", 1, at=8)
            commit(offsets, "billing", 1, topic="unknown")
            async with watching(cluster, None, watch_end_offsets_interval_ms="300") as watcher:
                (row,) = watcher.tables().groups
                lags = {
                    (one.committed.topic, one.committed.partition): (one.lag, one.why)
                    for one in row.offsets
                }
                assert lags == {
                    ("orders", 0): (2, ""), ("orders", 1): (0, "beyond the end"),
                    ("orders", 8): (None, "no such partition"),
                    ("unknown", 0): (None, "topic not visible"),
                }  # fmt: skip
                assert (row.lag, row.unknown) == (2, 2)
                leader_of_1 = cluster.partition("orders", 1).leader
                await cluster.stop(leader_of_1)
                await until(lambda: watcher.tables().groups[0].unknown == 3)
                (row,) = watcher.tables().groups
                assert {one.why for one in row.offsets if one.lag is None} >= {"end too old"}

    asyncio.run(story())
