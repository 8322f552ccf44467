"""A coordinator over a log that is no directory: a store of one's own."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.types import GroupId
from kio.static.primitive import i32
from support.memory_log import MemoryLog, record_batch

from pykcoord import Config, Coordinator, CoordinatorClosedError
from pykcoord.errors import LogError
from pykcoord.log import Append, Done, ShardLostError, ShardReleasedError, Taken

SECONDS = 60.0
TOPICS = {"orders": 3}
CONFIG = Config(group_initial_rebalance_delay_ms=0)
BEAT = HeartbeatRequest(group_id=GroupId("billing"), generation_id=i32(1), member_id="x")


class Stolen(MemoryLog):
    """After the first turn another process leads all shards."""

    def append(self, appends: Sequence[Append], done: Done) -> None:
        failed: Any = [
            (shard, ShardLostError(shard, "taken over", fenced=True))
            for shard in {append.shard for append in appends}
        ]
        done([], failed)


class OwnOffsets(MemoryLog):
    """Assigns offsets itself: a record of another writer comes before each batch of a shard."""

    def __init__(self, shards: int) -> None:
        super().__init__(shards)
        self.ahead = [0] * shards  # of what the core counts, since the shard was taken

    def take(self, shard: int, new_loader: Callable[[], Any]) -> Taken:
        taken = super().take(shard, new_loader)
        end_offset = self.next_offsets[shard] = taken.next_offset + self.ahead[shard]
        self.ahead[shard] = 0
        return Taken(taken.loader, end_offset, taken.epoch)

    def _write(self, append: Append) -> int:
        self.ahead[append.shard] += 1
        placed = append._replace(base_offset=append.base_offset + self.ahead[append.shard])
        self.batches[append.shard].append(record_batch(placed))
        end_offset = append.base_offset + append.record_count
        self.next_offsets[append.shard] = end_offset
        return end_offset


class Forgetful(MemoryLog):
    """Once says of a shard that it leads that it does not."""

    forgets = False

    def append(self, appends: Sequence[Append], done: Done) -> None:
        if self.forgets:
            self.forgets = False
            done([], [(shard, ShardReleasedError(shard)) for shard in {a.shard for a in appends}])
        else:
            super().append(appends, done)


class Watching(MemoryLog):
    """A store that learns of takeovers."""

    lost: Callable[[LogError], None]

    def __init__(self, shards: int, *, is_lost_at_once: bool = False) -> None:
        super().__init__(shards)
        self._is_lost_at_once = is_lost_at_once

    def start_watching(self, lost: Callable[[LogError], None]) -> None:
        assert len(self.taken) == self.shards
        self.lost = lost
        if self._is_lost_at_once:
            lost(ShardLostError(0, "taken over", fenced=True))


class Unsound(MemoryLog):
    def __init__(self, shards: int) -> None:
        super().__init__(shards)
        self.closed = 0

    def take(self, shard: int, new_loader: Callable[[], Any]) -> Taken:
        raise OSError("the storage is away")

    def close(self) -> None:
        self.closed += 1
        super().close()


class Placed:
    """A loader that keeps where batches begin."""

    def __init__(self) -> None:
        self.bases: list[int] = []
        self.last = 0

    def replay(self, chunk: bytes) -> None:
        while chunk:
            base_offset, length = struct.unpack_from(">qi", chunk)
            self.bases.append(base_offset)
            self.last = base_offset + struct.unpack_from(">i", chunk, 23)[0]
            chunk = chunk[12 + length :]


def test_all_shards_are_led_and_come_back_from_the_store() -> None:
    store = MemoryLog(5)  # `offsets.topic.num.partitions` is for directories
    with Coordinator(store, topics=TOPICS, config=CONFIG) as coordinator:
        with coordinator.join("billing", ["orders"]) as member:
            member.commit({("orders", 1): 42})
        assert coordinator.topics == TOPICS
    assert sum(map(bool, store.batches)) == 1
    with Coordinator(store, topics=TOPICS, config=CONFIG) as again:
        assert again.offsets()["offset"].to_pylist() == [42]
        assert again.groups()["group_id"].to_pylist() == ["billing"]
    assert store.taken == [*range(5), *range(5)]


def test_both_doors_answer_the_same() -> None:
    with Coordinator(MemoryLog(2), topics=TOPICS) as coordinator:
        by_future = coordinator.handle(BEAT).result(SECONDS)
        assert by_future.error_code.name == "unknown_member_id"
        assert asyncio.run(coordinator.handle_async(BEAT)) == by_future


def test_a_shard_whose_append_failed_is_taken_again() -> None:
    store = MemoryLog(1)
    with (
        Coordinator(store, topics=TOPICS, config=CONFIG) as coordinator,
        coordinator.join("billing", ["orders"]) as member,
    ):
        member.commit({("orders", 0): 1})
        store.fail[0] = OSError("no space left")
        member.commit({("orders", 0): 2})
        assert member.committed() == {("orders", 0): 2}
    assert store.taken == [0, 0]


def test_a_store_may_assign_offsets_itself() -> None:
    store = OwnOffsets(1)
    for generation in range(3):
        with Coordinator(store, topics=TOPICS, config=CONFIG) as coordinator:
            if generation:
                assert coordinator.offsets()["offset"].to_pylist() == [10 * generation - 1]
            with coordinator.join("billing", ["orders"]) as member:
                for offset in range(10 * generation, 10 * generation + 10):
                    member.commit({("orders", 0): offset})
    loader = Placed()
    end_offset = store.take(0, lambda: loader).next_offset
    assert loader.last < end_offset
    assert len(loader.bases) > 30
    assert all(one < other - 1 for one, other in pairwise(loader.bases)), "there are gaps"


def test_a_shard_that_its_store_does_not_lead_any_more_is_taken_again() -> None:
    store = Forgetful(1)
    with (
        Coordinator(store, topics=TOPICS, config=CONFIG) as coordinator,
        coordinator.join("billing", ["orders"]) as member,
    ):
        member.wait(SECONDS)
        store.forgets = True
        member.commit({("orders", 0): 2}, SECONDS)
    assert store.taken == [0, 0]


def test_a_store_that_another_process_took_ends_the_coordinator() -> None:
    store = Stolen(1)
    coordinator = Coordinator(store, topics=TOPICS, config=CONFIG)
    coordinator.start()
    member = coordinator.join("billing", ["orders"])
    with pytest.raises(CoordinatorClosedError, match="taken over"):
        member.wait(SECONDS)
    with pytest.raises(ShardLostError, match="taken over"):
        coordinator.close()
    assert store.taken == [0], "it was taken back"


@pytest.mark.parametrize("is_lost_at_once", [False, True])
def test_a_takeover_that_the_store_learns_of_ends_a_coordinator_that_appends_nothing(
    is_lost_at_once: bool,
) -> None:
    store = Watching(2, is_lost_at_once=is_lost_at_once)
    coordinator = Coordinator(store, topics=TOPICS, config=CONFIG)
    coordinator.start()
    if not is_lost_at_once:
        store.lost(ShardLostError(1, "taken over", fenced=True))
    with pytest.raises(CoordinatorClosedError, match="taken over"):
        list(coordinator.events())
    with pytest.raises(ShardLostError, match="taken over"):
        coordinator.close()


def test_a_store_that_cannot_be_loaded_is_closed_and_named() -> None:
    store = Unsound(2)
    coordinator = Coordinator(store)
    with pytest.raises(OSError, match="the storage is away"):
        coordinator.start()
    assert store.closed == 1
    with pytest.raises(CoordinatorClosedError, match="the coordinator of a Unsound failed"):
        coordinator.groups()
