"""Journals: what a round holds, who may go on, and what is told of puts that fail."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from support.batches import data
from support.hosting import FaultyStore
from support.waiting import SECONDS

from pykcoord.clock import boot_seconds
from pykcoord.cluster.journals import Journaling, JournalLog
from pykcoord.cluster.reading import Stretch
from pykcoord.log.protocol import Append, Failure, ShardLostError
from pykcoord.log.shared import CorruptEntryError
from pykcoord.log.shared.pruning import delete_rounds, keep_snapshots, snapshot_name
from pykcoord.log.shared.rounds import Part, Round, fence_journal, read_round, round_name

OWN, OTHER = 7, 8


class Heard(Journaling):
    def __init__(self) -> None:
        self.said: list[Any] = []
        self._changed = threading.Condition()

    def proved(self, started: int, next_index: int, leaderships: Sequence[tuple[int, int]]) -> None:
        self._say(next_index)
        self._say(("wrote", *leaderships))

    def fenced(self) -> None:
        self._say("fenced")

    def done(self, committed: list[tuple[int, int]], failed: list[tuple[int, Failure]]) -> None:
        for one in committed:
            self._say(one)
        for shard, error in failed:
            self._say((shard, error))

    def wait(self, said: Any) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: said in self.said, SECONDS), self.said

    def wait_for_a_failure(self) -> Failure:
        def failures() -> list[Failure]:
            errors = [one[1] for one in self.said if isinstance(one, tuple)]
            return [error for error in errors if isinstance(error, Exception)]

        with self._changed:
            assert self._changed.wait_for(failures, SECONDS), self.said
        return failures()[0]

    def _say(self, what: Any) -> None:
        with self._changed:
            self.said.append(what)
            self._changed.notify_all()


class Kept:
    """A loader that keeps what it is given, and gives it as its snapshot."""

    def __init__(self) -> None:
        self.content = b""
        self._told = False

    def replay(self, chunk: bytes) -> None:
        self.content += chunk

    restore = replay

    def snapshot_chunk(self) -> bytes | None:
        chunk, self._told = None if self._told else self.content, True
        return chunk


def record(shard: int, base_offset: int) -> Append:
    made = data(base_offset, [(b"key", b"value")])
    return Append(shard, base_offset, 1, 1000, 1000, made.encode()[61:])


def led(store: Any, heard: Heard, *shards: int) -> JournalLog:
    log = JournalLog(store, 3, OWN, heard)
    for shard in shards:
        log.assign(shard, 0, [Stretch(OWN, 0, 0, None)])
        log.take(shard, Kept)
    return log


def test_a_round_is_read_as_it_was_written_and_damage_is_named() -> None:
    written = Round([Part(3, 5, 10, 2, b"batches"), Part(4, 0, 0, 1, b"")], None)
    content = written.encode()
    assert Round.decode("here", content) == written
    assert Round.decode("here", Round((), OWN).encode()).fenced_by == OWN
    for at in range(len(content)):
        damaged = content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]
        with pytest.raises(CorruptEntryError, match="here"):
            Round.decode("here", damaged)


def test_shards_of_a_turn_share_a_round() -> None:
    store, heard = FaultyStore(), Heard()
    log = led(store, heard, 0, 2)
    log.append([record(0, 0), record(2, 0), record(0, 1)], heard.done)
    heard.wait((0, 2))
    heard.wait((2, 1))
    heard.wait(("wrote", (0, 0), (2, 0)))
    found = read_round(store, OWN, 0)
    assert found is not None
    assert [(part.shard, part.record_count) for part in found.parts] == [(0, 2), (2, 1)]
    assert read_round(store, OWN, 1) is None
    log.close()


def test_a_put_whose_answer_was_lost_is_known_by_what_stands_there() -> None:
    store, heard = FaultyStore(), Heard()
    log = led(store, heard, 0)
    store.faults.append("after")
    log.append([record(0, 0)], heard.done)
    heard.wait((0, 1))
    log.append([record(0, 1)], heard.done)
    heard.wait((0, 2))
    assert sorted(store.objects) == [round_name(OWN, 0), round_name(OWN, 1)]
    log.close()


def test_what_was_told_to_have_failed_does_not_come_later() -> None:
    store, heard = FaultyStore(), Heard()
    log = led(store, heard, 0)
    store.faults += ["before"] * 3
    log.append([record(0, 0)], heard.done)
    error = heard.wait_for_a_failure()
    assert isinstance(error, ShardLostError)
    assert not error.fenced
    heard.wait(1)  # an empty round stands in its place
    log.assign(0, 0, [Stretch(OWN, 0, 0, None)])
    assert log.take(0, Kept).next_offset == 0
    log.close()


def test_who_gives_way_leaves_time_for_a_fence_between_two_rounds() -> None:
    """Else a busy node that others do not reach is ahead of every fence: its puts are one call of
    the store, looking for a place is two."""
    puts: list[tuple[float, float]] = []

    class Slow(FaultyStore):
        def create(self, name: str, content: bytes) -> bool:
            began = boot_seconds()
            threading.Event().wait(0.03)
            made = super().create(name, content)
            puts.append((began, boot_seconds()))
            return made

    store, heard = Slow(), Heard()
    log = led(store, heard, 0)
    log.gives_way = True
    for number in range(1, 6):
        log.prove()
        heard.wait(number)
    log.close()
    for (began, ended), (next_began, _) in itertools.pairwise(puts):
        assert next_began - ended > 2 * (ended - began)


def test_who_is_fenced_acknowledges_nothing_more() -> None:
    store, heard = FaultyStore(), Heard()
    log = led(store, heard, 0)
    log.append([record(0, 0)], heard.done)
    heard.wait((0, 1))
    assert fence_journal(store, OWN, 0, OTHER) == 1
    assert fence_journal(store, OWN, 0, OTHER) == 1  # and no second one behind it
    log.append([record(0, 1)], heard.done)
    error = heard.wait_for_a_failure()
    assert isinstance(error, ShardLostError)
    assert error.fenced
    heard.wait("fenced")
    next_log = JournalLog(store, 3, OTHER)
    next_log.assign(0, 1, [Stretch(OWN, 0, 0, 1), Stretch(OTHER, 1, 0, None)])
    taken = next_log.take(0, Kept)
    assert (taken.next_offset, taken.epoch) == (1, 1)
    next_log.close()
    log.close()


def test_a_round_that_is_missing_is_named() -> None:
    store, heard = FaultyStore(), Heard()
    log = led(store, heard, 0)
    for offset in range(2):
        log.append([record(0, offset)], heard.done)
        heard.wait((0, offset + 1))
    store.delete(round_name(OWN, 0))
    other = JournalLog(store, 3, OTHER)
    other.assign(0, 1, [Stretch(OWN, 0, 0, 2), Stretch(OTHER, 1, 0, None)])
    with pytest.raises(CorruptEntryError, match="000000000000: there is no such object"):
        other.take(0, Kept)
    other.close()
    log.close()


SNAPSHOTS = "shards/00000/snapshots"


def written(store: Any, heard: Heard) -> None:
    """Five rounds of shard 0, with snapshots after the second and the fourth."""
    log = led(store, heard, 0)
    for offset in range(5):
        log.append([record(0, offset)], heard.done)
        heard.wait((0, offset + 1))
        if offset % 2:
            places = log.snapshot(0, 0, [Stretch(OWN, 0, 0, None)], Kept())
            assert places is not None
            assert places[0] == (0, offset + 1)
    log.close()


def taken(store: Any, *earlier: Stretch) -> tuple[int, int]:
    """The next offset, and how many records there are."""
    other = JournalLog(store, 3, OTHER)
    try:
        other.assign(0, 1, [*earlier, Stretch(OTHER, 1, 0, None)])
        found = other.take(0, Kept)
        size = len(data(0, [(b"key", b"value")]).encode())
        return found.next_offset, len(found.loader.content) // size
    finally:
        other.close()


def damage(store: Any, *names: str) -> None:
    for name in names:
        store.objects[name] = store.objects[name][:-1]


def test_who_takes_a_shard_reads_its_snapshot_and_what_came_later() -> None:
    store = FaultyStore()
    written(store, Heard())
    names = store.names(SNAPSHOTS)
    assert names == ["0000000000-000000000002", "0000000000-000000000004"]
    assert delete_rounds(store, OWN, 2)  # what is in both
    assert taken(store, Stretch(OWN, 0, 2, 5, 2)) == (5, 5)
    damage(store, f"{SNAPSHOTS}/{names[1]}")  # the one before, and more rounds
    assert taken(store, Stretch(OWN, 0, 2, 5, 2)) == (5, 5)


def test_a_shard_none_of_whose_snapshots_can_be_read_is_not_led() -> None:
    store = FaultyStore()
    written(store, Heard())
    assert delete_rounds(store, OWN, 2)
    damage(store, *(f"{SNAPSHOTS}/{name}" for name in store.names(SNAPSHOTS)))
    with pytest.raises(CorruptEntryError, match=f"{SNAPSHOTS}: no snapshot that can be read"):
        taken(store, Stretch(OWN, 0, 2, 5, 2))
    for name in store.names(SNAPSHOTS):
        store.delete(f"{SNAPSHOTS}/{name}")
    with pytest.raises(CorruptEntryError, match="whose rounds below 2 are deleted"):
        taken(store, Stretch(OWN, 0, 2, 2, 2))  # nor where no round of it is left


def test_a_snapshot_that_cannot_be_read_does_not_count() -> None:
    store = FaultyStore()
    written(store, Heard())
    first, second = (f"{SNAPSHOTS}/{name}" for name in store.names(SNAPSHOTS))
    damage(store, second)
    assert keep_snapshots(store, 0) == [(0, 2)]
    content = store.objects[first]
    store.create(snapshot_name(0, (1, 3)), content)
    assert keep_snapshots(store, 0) == [(1, 3), (0, 2)]  # the older one that can be read stays
    store.create(snapshot_name(0, (1, 9)), content)
    assert keep_snapshots(store, 0) == [(1, 9), (1, 3)]
    assert store.names(SNAPSHOTS) == ["0000000001-000000000003", "0000000001-000000000009"]


def test_a_snapshot_of_another_epoch_than_the_shard_is_led_in_is_not_written() -> None:
    store, heard = FaultyStore(), Heard()
    log = led(store, heard, 0)
    assert log.snapshot(0, 1, [Stretch(OWN, 1, 0, None)], Kept()) is None
    log.release(0)
    assert log.snapshot(0, 0, [Stretch(OWN, 0, 0, None)], Kept()) is None
    assert store.names(SNAPSHOTS) == []
    log.close()


def test_rounds_are_deleted_in_slices_and_the_fence_stays() -> None:
    store = FaultyStore()
    written(store, Heard())
    end = fence_journal(store, OWN, 0, OTHER)
    assert not delete_rounds(store, OWN, end, most=2)
    assert not delete_rounds(store, OWN, end, most=2)
    assert delete_rounds(store, OWN, end, most=2)
    assert store.names("nodes/0000000000000007") == [f"{end:012}"]
    assert fence_journal(store, OWN, end, OTHER) == end
