"""The engine's log on a node: what is acknowledged, and what is not."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from pykcoord._native import Node
from pykcoord.config import Config
from pykcoord.errors import LogError
from pykcoord.log.copied import SyncJob
from pykcoord.log.protocol import Append, Failure, Log, ShardLostError, ShardReleasedError
from pykcoord.log.replicas import ReplicaDirectory
from pykcoord.node.leader import LedPartition
from pykcoord.node.store import NodeLog

from .markers import end_marker

_TOPIC_ID = uuid.UUID(int=5)
_WAIT_S = 60.0
# A tombstone of an unknown type: any record will do.
_RECORD = bytes([2 * 8, 0, 0, 0, 4, 0, 99, 1, 0])


def _append(offset: int, shard: int = 0) -> Append:
    return Append(shard, offset, 1, 1_000, 1_000, _RECORD)


class _Store:
    def __init__(self, path: Path) -> None:
        self.directory = ReplicaDirectory.open(path, 1 << 20)
        self.directory.begin("cluster", 9, _TOPIC_ID, 2, str(uuid.UUID(int=1)))
        self.log = NodeLog(self.directory, 2, lambda broker, epoch: True)
        self.outcomes: list[tuple[list[tuple[int, int]], list[tuple[int, Failure]]]] = []
        self.heard = asyncio.Event()

    def lead(self, isr: tuple[int, ...], epoch: int = 3, shard: int = 0) -> LedPartition:
        log = self.directory.open_log(shard)
        partition = LedPartition(
            node_id=9, replicas=(9, 1), isr=isr, leader_epoch=epoch, partition_epoch=1,
            start=log.next_offset, min_isr=1, lag_seconds=30.0, begun_at=0.0,
        )  # fmt: skip
        self.log.lead(shard, partition)
        return partition

    def append(self, *appends: Append) -> None:
        def done(committed: list[tuple[int, int]], failed: list[tuple[int, Failure]]) -> None:
            self.outcomes.append((committed, failed))
            self.heard.set()

        self.log.append(appends, done)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(_WAIT_S):
            while not condition():
                self.heard.clear()
                await self.heard.wait()

    async def synced(self, partition: LedPartition) -> None:
        async with asyncio.timeout(_WAIT_S):
            while partition.synced < partition.end:
                await asyncio.sleep(0)

    def close(self) -> None:
        self.log.close()
        self.directory.close()


def _run(path: Path, story: Callable[[_Store], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        store = _Store(path)
        try:
            await story(store)
        finally:
            store.close()

    asyncio.run(run())


def test_it_is_a_log(tmp_path: Path) -> None:
    async def story(store: _Store) -> None:
        assert isinstance(store.log, Log)

    _run(tmp_path / "d", story)


def test_alone_what_is_synced_is_acknowledged(tmp_path: Path) -> None:
    async def story(store: _Store) -> None:
        store.lead((9,))
        store.append(_append(0), _append(1))
        await store.until(lambda: bool(store.outcomes))
        assert store.outcomes == [([(0, 2)], [])]

    _run(tmp_path / "d", story)


def test_nothing_is_acknowledged_that_a_follower_lacks(tmp_path: Path) -> None:
    async def story(store: _Store) -> None:
        partition = store.lead((9, 1))
        store.append(_append(0))
        store.append(_append(1))
        await store.synced(partition)
        assert store.outcomes == []
        store.log.fetched(1, 1, [(0, 1)])
        assert store.outcomes == [([(0, 1)], [])]
        store.log.fetched(1, 1, [(0, 2)])
        assert store.outcomes[1:] == [([(0, 2)], [])]

    _run(tmp_path / "d", story)


def test_turns_are_told_in_their_order_and_each_once(tmp_path: Path) -> None:
    async def story(store: _Store) -> None:
        one, other = store.lead((9, 1)), store.lead((9, 1), shard=1)
        store.append(_append(0), _append(0, 1))
        store.append(_append(1, 1))
        await store.synced(one)
        await store.synced(other)
        store.log.fetched(1, 1, [(1, 2), (0, 1)])
        assert store.outcomes == [([(1, 1), (0, 1)], []), ([(1, 2)], [])]

    _run(tmp_path / "d", story)


def test_who_is_told_of_what(tmp_path: Path) -> None:
    async def story(store: _Store) -> None:
        heard: list[tuple[str, Any]] = []
        for name in ("on_append", "on_watermark", "on_led", "on_outsider"):
            setattr(store.log, name, lambda number, name=name: heard.append((name, number)))
        partition = store.lead((9,))
        store.append(_append(0))
        await store.until(lambda: bool(store.outcomes))
        assert heard == [("on_led", 0), ("on_append", [0]), ("on_watermark", [0])]
        store.log.fetched(1, 1, [(0, 1)])
        assert heard[3:] == [("on_outsider", 0)]
        partition.placed((9, 1), (9, 1), 2)
        store.log.fetched(1, 1, [(0, 1)])
        store.log.release(0)
        assert heard[4:] == [("on_led", 0)]

    _run(tmp_path / "d", story)


def test_what_waits_when_another_leads_is_not_acknowledged(tmp_path: Path) -> None:
    async def story(store: _Store) -> None:
        partition = store.lead((9, 1))
        store.append(_append(0))
        await store.synced(partition)
        store.log.release(0)
        ((committed, failed),) = store.outcomes
        assert committed == []
        assert isinstance(failed[0][1], ShardReleasedError)
        store.append(_append(1))
        assert isinstance(store.outcomes[1][1][0][1], ShardReleasedError)

    _run(tmp_path / "d", story)


def test_a_partition_is_taken_with_all_that_is_in_its_log(tmp_path: Path) -> None:
    async def story(store: _Store) -> None:
        node = Node(Config().native(), 2, bytes(32))
        with pytest.raises(ShardLostError):
            store.log.take(0, node.loader)
        store.lead((9,))
        store.append(_append(0))
        await store.until(lambda: bool(store.outcomes))
        led = store.log.led[0]
        assert await store.log.all_has_reached(led, 1)
        taken = store.log.take(0, node.loader)
        assert (taken.next_offset, taken.epoch) == (1, 3)

    _run(tmp_path / "d", story)


def test_transactions_that_ended_are_forgotten_though_nobody_reads(tmp_path: Path) -> None:
    class Loader:
        def replay(self, chunk: bytes) -> None:
            """What the groups make of it is not looked at."""

    async def story(store: _Store) -> None:
        def transaction(offset: int) -> tuple[Append, Append]:
            data = Append(0, offset, 1, 1_000, 1_000, _RECORD, 40, 0)
            return data, end_marker(offset + 1, (40, 0), 1, coordinator_epoch=1, at_ms=1_000)

        store.lead((9,))
        store.append(*transaction(0))
        await store.until(lambda: bool(store.outcomes))
        store.log.take(0, Loader)
        producers = store.log.led[0].producers
        assert producers is not None
        assert not producers._ended
        for turn in range(1, 4):
            store.append(*transaction(2 * turn))
            await store.until(lambda turn=turn: len(store.outcomes) == turn + 1)
        assert not producers._ended
        assert producers.stable(8) == 8

    _run(tmp_path / "d", story)


def test_a_wait_for_the_high_watermark_ends_with_the_leading(tmp_path: Path) -> None:
    async def story(store: _Store) -> None:
        store.lead((9, 1))
        store.append(_append(0))
        waiting = asyncio.create_task(store.log.all_has_reached(store.log.led[0], 1))
        await asyncio.sleep(0)
        store.log.release(0)
        assert not await asyncio.wait_for(waiting, _WAIT_S)

    _run(tmp_path / "d", story)


def test_a_disk_that_takes_nothing_ends_the_leading_of_the_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(store: _Store) -> None:
        store.lead((9,))
        log = store.directory.logs[0]

        def fail(*arguments: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(log, "lead", fail)
        store.append(_append(0))
        ((committed, failed),) = store.outcomes
        assert committed == []
        assert isinstance(failed[0][1], ShardLostError)
        assert "No space left" in str(failed[0][1])

    _run(tmp_path / "d", story)


def test_a_process_without_descriptors_ends_the_leading_and_forgets_no_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(store: _Store) -> None:
        store.lead((9,))
        other = store.lead((9,), shard=1)
        log = store.directory.logs[0]

        def fail() -> None:
            raise OSError(24, "Too many open files")

        with monkeypatch.context() as without:
            without.setattr(log, "sync_job", fail)
            store.append(_append(0), _append(0, 1))
            await store.until(lambda: len(store.outcomes) == 2)
        told = {shard: error for _, failed in store.outcomes for shard, error in failed}
        assert told.keys() == {0}
        assert "Too many open files" in str(told[0])
        assert ([(1, 1)], []) in store.outcomes, "the others are synced"
        assert other.high_watermark == 1
        assert log.is_dirty

    _run(tmp_path / "d", story)


def test_a_fault_while_files_are_synced_is_heard_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(store: _Store) -> None:
        store.lead((9,))
        heard: list[Exception] = []
        store.log.on_failure = heard.append

        def fail(jobs: list[SyncJob]) -> None:
            raise RuntimeError("a fault")

        monkeypatch.setattr("pykcoord.node.store.sync_all", fail)
        store.append(_append(0))
        await store.until(lambda: bool(store.outcomes))
        ((_, failed),) = store.outcomes
        assert isinstance(failed[0][1], ShardLostError)
        assert [str(one) for one in heard] == ["a fault"]

    _run(tmp_path / "d", story)


def test_what_was_written_before_another_led_is_synced_before_it_counts(tmp_path: Path) -> None:
    async def story(store: _Store) -> None:
        store.lead((9,))
        store.append(_append(0))  # nothing was synced yet
        log = store.directory.logs[0]
        again = store.lead((9,), epoch=4)
        assert (again.start, again.synced, again.high_watermark) == (1, 0, 0)
        assert await store.log.all_has_reached(store.log.led[0], 1)
        assert (again.synced, log.is_dirty) == (1, False)

    _run(tmp_path / "d", story)


def test_what_was_written_is_synced_also_when_another_leads(tmp_path: Path) -> None:
    async def story(store: _Store) -> None:
        store.lead((9,))
        store.append(_append(0))
        store.log.release(0)
        async with asyncio.timeout(_WAIT_S):
            while store.directory.logs[0].is_dirty:
                await asyncio.sleep(0)

    _run(tmp_path / "d", story)


def test_a_directory_is_of_one_node_of_one_cluster(tmp_path: Path) -> None:
    directory = ReplicaDirectory.open(tmp_path / "d", 1 << 20)
    directory.begin("one", 9, _TOPIC_ID, 2, str(uuid.UUID(int=1)))
    directory.keep_epoch(77)
    directory.open_log(1)
    directory.close()
    again = ReplicaDirectory.open(tmp_path / "d", 1 << 20)
    assert again.state is not None
    assert again.state.broker_epoch == 77
    assert again.on_disk() == [1]
    for cluster, node in (("two", 9), ("one", 8)):
        with pytest.raises(LogError, match="name another"):
            again.check(cluster, node)
    again.begin("one", 9, uuid.UUID(int=6), 2, str(uuid.UUID(int=1)))  # made again at the cluster
    assert again.on_disk() == []
    again.close()
    (tmp_path / "other" / "__consumer_offsets-0").mkdir(parents=True)
    with pytest.raises(LogError, match="not of a node"):
        ReplicaDirectory.open(tmp_path / "other", 1 << 20)


def test_a_replica_that_was_cut_is_not_said_to_be_whole(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(store: _Store) -> None:
        store.directory.keep_epoch(77)
        store.lead((9,))
        store.append(_append(0), _append(1))
        await store.until(lambda: bool(store.outcomes))

    _run(tmp_path / "d", story)
    directory = ReplicaDirectory.open(tmp_path / "d", 1 << 20)
    assert directory.state is not None
    assert directory.open_log(0).next_offset == 2
    assert directory.state.kept_epoch == 77
    directory.close()
    (segment,) = (tmp_path / "d" / "__consumer_offsets-0").glob("*.log")
    segment.write_bytes(segment.read_bytes()[:-1])
    for _ in range(2):  # until it is registered again
        directory = ReplicaDirectory.open(tmp_path / "d", 1 << 20)
        directory.begin("cluster", 9, _TOPIC_ID, 2, str(uuid.UUID(int=1)))
        assert directory.open_log(0).next_offset == 1
        assert directory.state is not None
        assert (directory.state.broker_epoch, directory.state.kept_epoch) == (77, -1)
        directory.close()
    directory = ReplicaDirectory.open(tmp_path / "d", 1 << 20)
    directory.keep_epoch(78)
    assert directory.state is not None
    assert directory.state.kept_epoch == 78
    directory.close()
    assert "is cut off after" in caplog.text
