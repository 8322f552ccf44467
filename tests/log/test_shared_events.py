"""Events of groups in a store that nodes share: what is written, what it becomes, and what of it is
read whoever led the shard and however a node ended."""

from __future__ import annotations

import itertools
import json

import pytest

from pykcoord._native import merge_events
from pykcoord.log.events import EventLimits, EventRecord, decode_batches
from pykcoord.log.shared.event_keeping import ObjectKeeper
from pykcoord.log.shared.events import EventObjects, flushes, pieces

NOW = 1_795_000_000_000
LIMITS = EventLimits(retention_ms=3_600_000)
_NODES = itertools.count(1)


class Store:
    """In memory. Is full when it is told to be."""

    def __init__(self) -> None:
        self.is_full = False
        self.objects: dict[str, bytes] = {}

    def create(self, name: str, content: bytes) -> bool:
        if self.is_full:
            raise OSError(28, "No space left on device")
        return self.objects.setdefault(name, content) is content

    def read(self, name: str) -> bytes | None:
        return self.objects.get(name)

    def names(self, folder: str) -> list[str]:
        below = (one.removeprefix(f"{folder}/") for one in self.objects if one.startswith(folder))
        return sorted(one for one in below if "/" not in one)

    def delete(self, name: str) -> None:
        self.objects.pop(name, None)


@pytest.fixture
def store() -> Store:
    return Store()


def keeper(store: Store, limits: EventLimits = LIMITS) -> ObjectKeeper:
    return ObjectKeeper("store", store, next(_NODES), limits, merge_events, 0.0)


def event(number: int, group: str = "g", size: int = 40) -> tuple[int, bytes, bytes]:
    value = {"kind": "member_rejoined", "n": number, "text": f"{number * 7919:x}".ljust(size, "x")}
    return NOW + number, group.encode(), json.dumps(value).encode()


def read(store: Store, shard: int = 3) -> list[EventRecord]:
    return EventObjects(store, 0.0).of(shard, lambda log: [*log.records()])


def numbers(records: list[EventRecord]) -> list[int]:
    return [json.loads(record.value)["n"] for record in records]


def test_one_write_has_what_came_of_all_shards(store: Store) -> None:
    node = keeper(store)
    node.leads(3, 1)
    node.leads(4, 1)
    assert node.append({3: [event(0), event(1)], 4: [event(2)], 5: []}) == {}
    assert len(flushes(store)) == 1
    assert (numbers(read(store)), numbers(read(store, 4)), read(store, 5)) == ([0, 1], [2], [])


def test_flushes_become_pieces_and_these_become_larger_and_nothing_is_lost(store: Store) -> None:
    node = keeper(store)
    node.leads(3, 1)
    for number in range(300):
        node.append({3: [event(number)]})
    assert numbers(read(store)) == list(range(300))
    # 300 writes: 18 times sixteen of them became a piece, and twice eight of these one.
    assert (len(flushes(store)), len(pieces(store, 3))) == (300 % 16, 2 + 2)
    node.close()
    assert (flushes(store), numbers(read(store))) == ([], list(range(300)))
    offsets = [record.offset for record in read(store)]
    assert offsets == [(1 << 32) + number for number in range(300)]


def test_the_next_leader_goes_on_and_what_the_old_one_writes_late_is_in_its_place(
    store: Store,
) -> None:
    old, new = keeper(store), keeper(store)
    old.leads(3, 7)
    old.append({3: [event(0)]})
    new.leads(3, 8)
    new.append({3: [event(2)]})
    old.append({3: [event(1)]})
    assert numbers(read(store)) == [0, 1, 2]
    # It comes back: the pieces of its two leaderships must not hide what was between.
    old.leads(3, 9)
    old.append({3: [event(3)]})
    old.close()
    assert numbers(read(store)) == [0, 1, 2, 3]
    new.close()
    assert numbers(read(store)) == [0, 1, 2, 3]


def test_what_several_objects_have_is_read_once(store: Store) -> None:
    node = keeper(store)
    node.leads(3, 1)
    for number in range(5):
        node.append({3: [event(number)]})
    # As after a node that was killed when it had written a piece, and not removed the flushes yet.
    kept = {flush.name: store.read(flush.name) for flush in flushes(store)}
    node.close()
    for name, content in kept.items():
        assert content is not None
        store.create(name, content)
    assert numbers(read(store)) == list(range(5))
    # Another node sees to it.
    other = keeper(store)
    other.expire(NOW + 20 * 60_000)
    assert (flushes(store), numbers(read(store))) == ([], list(range(5)))


def test_clients_read_batches_from_any_offset_and_time(store: Store) -> None:
    node = keeper(store)
    for epoch in (1, 2):
        node.leads(3, epoch)
        for number in range(20):
            node.append({3: [event(20 * epoch + number)]})
    objects = EventObjects(store, 0.0)
    start, end = objects.of(3, lambda log: (log.start_offset, log.end_offset))
    assert (start, end) == (1 << 32, (2 << 32) + 20)
    found: list[EventRecord] = []
    offset = start
    while offset < end:  # as a consumer: the first batch may begin before what it asks for
        batches = objects.of(3, lambda log, at=offset: log.read(at, 1))  # type: ignore[misc]
        for next_offset, records in decode_batches(batches):
            found += [record for record in records if record.offset >= offset]
            offset = next_offset
    assert numbers(found) == list(range(20, 60))
    at = objects.of(3, lambda log: log.offset_at(NOW + 45))
    assert at == ((2 << 32) + 5, NOW + 45)
    assert objects.of(3, lambda log: log.offset_at(NOW + 60)) is None


def test_pieces_that_went_while_they_were_read_are_read_where_they_are_now(store: Store) -> None:
    node = keeper(store)
    node.leads(3, 1)
    for number in range(16):
        node.append({3: [event(number)]})
    reader = EventObjects(store, 3_600.0)
    assert len(reader.of(3, lambda log: [*log.records()])) == 16
    reader._kept.clear()
    for number in range(16, 128):
        node.append({3: [event(number)]})
    assert len(pieces(store, 3)) == 1
    assert numbers(reader.of(3, lambda log: [*log.records()])) == list(range(128))


def test_what_the_store_does_not_take_is_said_and_the_rest_is_kept(store: Store) -> None:
    node = keeper(store)
    node.leads(3, 1)
    node.append({3: [event(0)]})
    store.is_full = True
    failed = node.append({3: [event(1)], 4: [event(2)]})
    assert failed.keys() == {3, 4}
    assert "No space left" in str(failed[3])
    node.close()  # what it had written stays as it is
    store.is_full = False
    node.append({3: [event(3)]})
    assert numbers(read(store)) == [0, 3]


def test_an_object_that_is_damaged_is_left_out(store: Store) -> None:
    node = keeper(store)
    node.leads(3, 1)
    for number in range(20):
        node.append({3: [event(number)]})
    (piece,) = pieces(store, 3)
    store.objects[piece.name(3)] = store.objects[piece.name(3)][:-9]
    store.objects[flushes(store)[0].name] = b"nothing of ours"
    assert numbers(read(store)) == [17, 18, 19]


def test_what_is_old_or_too_much_goes_and_is_counted(store: Store) -> None:
    node = keeper(store, EventLimits(retention_ms=3_600_000, retention_bytes=4_000))
    node.leads(3, 1)
    for number in range(16):
        node.append({3: [event(number)]})
    node.leads(3, 2)
    for number in range(5_000_000, 5_000_016):
        node.append({3: [event(number, size=400)]})
    node.expire(NOW + 5_000_016)
    assert numbers(read(store)) == list(range(5_000_000, 5_000_016))
    assert node.take_cut() == (0, 0)  # too old: nothing was lost
    for epoch in range(3, 9):
        node.leads(3, epoch)
        for number in range(16):
            node.append({3: [event(5_000_100 + 16 * epoch + number, size=400)]})
    node.expire(NOW + 5_700_000)
    kept = numbers(read(store))
    assert kept[-1] == 5_000_100 + 16 * 8 + 15
    assert sum(piece.size for piece in pieces(store, 3)) <= 4_000
    assert node.take_cut() == (0, 7 * 16 - len(kept))


def test_no_group_puts_out_what_happened_to_the_others(store: Store) -> None:
    limits = EventLimits(segment_bytes=8_000, group_bytes=30_000, retention_ms=3_600_000)
    node = keeper(store, limits)
    node.leads(3, 1)
    node.append({3: [event(0, "quiet")]})
    total = 6_000
    for number in range(1, total):
        node.append({3: [event(number, "busy", size=60)]})
        if number % 2_000 == 0:
            node.append({3: [event(number, "quiet")]})
    found = read(store)
    quiet = [record for record in found if record.key == b"quiet"]
    busy = [record for record in found if record.key == b"busy"]
    assert numbers(quiet) == [0, 2_000, 4_000]
    assert json.loads(busy[-1].value)["n"] == total - 1
    assert sum(len(record.value) for record in busy) < 3 * limits.group_bytes
    dropped = [json.loads(one.value) for one in busy if b"events_dropped" in one.value]
    of_group, _ = node.take_cut()
    assert sum(one["count"] for one in dropped) == of_group > 4_000
    assert of_group == total - 1 - (len(busy) - len(dropped))
