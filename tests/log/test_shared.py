"""The shared shard log: writers that crash and sleep, one log, nothing acknowledged lost."""

from __future__ import annotations

import sys
from pathlib import Path

import obstore.store
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pykcoord.errors import ArgumentError
from pykcoord.log.shared import (
    CorruptEntryError,
    Entry,
    FencedError,
    FolderStore,
    ShardLog,
    Snapshot,
    Store,
    open_logs,
    open_store,
)
from pykcoord.log.shared.entry import decode_entry, decode_snapshot, encode
from pykcoord.log.shared.object_store import ObjectStore

PRUNE_AFTER_SECONDS = 10.0


class MemoryStore:
    """Objects in a dict. `crash` fails the next `create`, before or after it took effect."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.crash: str | None = None

    def create(self, name: str, content: bytes) -> bool:
        crash, self.crash = self.crash, None
        if crash == "before":
            raise OSError("crashed before the put")
        if name in self.objects:
            return False
        self.objects[name] = content
        if crash == "after":
            raise OSError("crashed after the put")
        return True

    def read(self, name: str) -> bytes | None:
        return self.objects.get(name)

    def names(self, folder: str) -> list[str]:
        below = (name.removeprefix(f"{folder}/") for name in self.objects if folder in name)
        return sorted(name for name in below if "/" not in name)

    def delete(self, name: str) -> None:
        self.objects.pop(name, None)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Writer:
    """A process that leads if it can, and remembers the entries that it has read: its state is a
    list."""

    def __init__(self, store: Store, clock: Clock, name: str) -> None:
        self.log = ShardLog(store, 3, clock=clock, prune_after_seconds=PRUNE_AFTER_SECONDS)
        self.clock, self.name = clock, name
        self.loaded = False
        self.state: list[bytes] = []

    def load(self) -> None:
        snapshot = self.log.load()
        self.state = snapshot.content.split() if snapshot is not None else []
        self.loaded = True

    def follow(self) -> None:
        for entry in self.log.follow():
            self.log.leads = False
            self.state += entry.batches.split()

    def append(self, word: bytes) -> None:
        self.log.append(word + b" ", 1, now_ms=0)
        self.state.append(word)

    def reign(self, *words: bytes, seconds: float = 2 * PRUNE_AFTER_SECONDS) -> None:
        """Append each, and a snapshot after so long that what it replaces may be pruned."""
        for word in words:
            self.append(word)
            self.clock.now += seconds
            self.log.snapshot(b" ".join(self.state))

    def drop(self) -> None:
        self.loaded = False

    def lead(self) -> bool:
        if not self.loaded:
            self.load()
        self.follow()
        return self.log.claim(self.name, 0)


@pytest.fixture(params=["folder", "memory", "object store"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "folder":
        return FolderStore(tmp_path / "log")
    return MemoryStore() if request.param == "memory" else ObjectStore(obstore.store.MemoryStore())


def test_an_object_is_created_once_and_never_changed(store: Store) -> None:
    assert store.read("a/b") is None
    assert store.names("a") == []
    assert store.create("a/b", b"first")
    assert not store.create("a/b", b"second")
    assert store.create("a/c", b"")
    assert store.read("a/b") == b"first"
    assert store.names("a") == ["b", "c"]
    store.delete("a/b")
    store.delete("a/b")
    assert store.names("a") == ["c"]


def test_an_object_store_without_obstore_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "pykcoord.log.shared.object_store")
    monkeypatch.setitem(sys.modules, "obstore.exceptions", None)
    with pytest.raises(ImportError, match=r"needs obstore: pip install 'pykcoord\[cluster\]'"):
        open_store("s3://bucket/log")
    assert isinstance(open_store(tmp_path), FolderStore)


def test_a_folder_keeps_nothing_of_a_put_that_lost(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    assert store.create("chunks/0", b"x")
    assert not store.create("chunks/0", b"y")
    assert [path.name for path in (tmp_path / "chunks").iterdir()] == ["0"]


def test_what_a_leader_wrote_is_there_for_the_next(store: Store) -> None:
    first, second = (Writer(store, Clock(), name) for name in ("first", "second"))
    assert first.lead()
    first.log.append(b"one ", 1, now_ms=5)
    first.log.append(b"two three ", 2, now_ms=7)
    assert second.lead()
    assert second.state == [b"one", b"two", b"three"]
    assert (second.log.epoch, second.log.next_offset, second.log.now_ms) == (1, 3, 7)
    with pytest.raises(FencedError, match="shard 3: entry 3"):
        first.log.append(b"late ", 1, now_ms=9)
    assert not first.log.leads


def test_a_snapshot_stands_for_what_came_before(store: Store) -> None:
    clock = Clock()
    leader = Writer(store, clock, "leader")
    assert leader.lead()
    leader.reign(*(b"%d" % number for number in range(6)), seconds=PRUNE_AFTER_SECONDS)
    assert len(store.names("shard-00003/snapshots")) == 2
    assert len(store.names("shard-00003/chunks")) <= 3
    reader = Writer(store, clock, "reader")
    assert reader.lead()
    assert reader.state == [b"0", b"1", b"2", b"3", b"4", b"5"]
    assert reader.log.next_offset == 6


def test_a_batch_that_is_repeated_is_answered_as_before(store: Store) -> None:
    leader = Writer(store, Clock(), "leader")
    assert leader.lead()
    leader.log.append(b"a ", 1, now_ms=0, source="query", sequence=4, responses=b"answers")
    leader.log.append(b"b ", 1, now_ms=0, source="other", sequence=0)
    leader.log.snapshot(b"a b")
    retry = Writer(store, Clock(), "retry")
    assert retry.lead()
    found = retry.log.repeated("query", 4)
    assert found is not None
    assert (found.responses, found.batches) == (b"answers", b"a ")
    assert retry.log.repeated("query", 5) is None
    with pytest.raises(ArgumentError, match="3 of query comes after 4"):
        retry.log.repeated("query", 3)


def test_a_writer_that_slept_through_the_pruning_of_its_index_is_fenced() -> None:
    store, clock = MemoryStore(), Clock()
    sleeper, other = Writer(store, clock, "sleeper"), Writer(store, clock, "other")
    assert sleeper.lead()
    assert other.lead()
    other.reign(*4 * [b"x"])
    taken = f"shard-00003/chunks/{sleeper.log.next_index:012}"
    assert taken not in store.objects
    with pytest.raises(FencedError):
        sleeper.log.append(b"lost ", 1, now_ms=0)
    late = Writer(store, clock, "late")
    late.load()
    late.follow()
    assert b"lost" not in late.state


def test_a_leader_that_looks_for_more_first_is_fenced_all_the_same() -> None:
    """A place without an entry need not be free."""
    store, clock = MemoryStore(), Clock()
    first, other = Writer(store, clock, "first"), Writer(store, clock, "other")
    assert first.lead()
    assert other.lead()
    other.reign(*4 * [b"x"])
    with pytest.raises(FencedError):
        first.follow()
    reader = Writer(store, clock, "reader")
    reader.load()
    reader.follow()
    assert reader.log.next_index == other.log.next_index


def test_a_log_that_goes_on_while_its_end_is_read_is_followed() -> None:
    """A later snapshot alone proves nothing: the entry may be there by now."""
    store, clock = MemoryStore(), Clock()
    leader, reader = Writer(store, clock, "leader"), Writer(store, clock, "reader")
    assert leader.lead()
    reader.load()
    read, goes_on = store.read, [b"late "]

    def read_and_go_on(name: str) -> bytes | None:
        content = read(name)
        if content is None and goes_on:
            leader.log.append(goes_on.pop(), 1, now_ms=0)
            leader.log.snapshot(b"late")
        return content

    store.read = read_and_go_on  # type: ignore[method-assign]
    reader.follow()
    assert reader.state == [b"late"]


def test_a_claim_at_an_index_that_was_pruned_is_fenced() -> None:
    store, clock = MemoryStore(), Clock()
    sleeper, other = Writer(store, clock, "sleeper"), Writer(store, clock, "other")
    sleeper.load()
    sleeper.follow()
    assert other.lead()
    other.reign(*3 * [b"x"])
    with pytest.raises(FencedError):
        sleeper.log.claim("sleeper", 0)
    assert not sleeper.log.leads


def test_answers_of_the_last_batch_outlive_the_pruning_of_their_entry() -> None:
    store, clock = MemoryStore(), Clock()
    leader = Writer(store, clock, "leader")
    assert leader.lead()
    leader.log.append(b"a ", 1, now_ms=0, source="query", sequence=4, responses=b"answers")
    leader.reign(*3 * [b"b"])
    assert [int(name) for name in store.names("shard-00003/chunks")] == [1, 4]
    found = leader.log.repeated("query", 4)
    assert found is not None
    assert found.responses == b"answers"


ACTIONS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from(["append", "append", "reign", "follow", "lead", "restart", "snapshot"]),
        st.sampled_from([0.0, 0.0, 1.0, PRUNE_AFTER_SECONDS / 2, 3 * PRUNE_AFTER_SECONDS]),
        st.sampled_from([None, None, None, "before", "after"]),
    ),
    max_size=60,
)


@settings(max_examples=300, deadline=None)
@given(ACTIONS)
@example(
    [(at, action, 0.0, None) for at, action in [
        (0, "lead"), (1, "lead"), (1, "reign"), (0, "follow"), (0, "append"),
    ]]
)  # fmt: skip
def test_nothing_acknowledged_is_lost_and_nothing_twice(
    actions: list[tuple[int, str, float, str | None]],
) -> None:
    store, clock = MemoryStore(), Clock()
    writers = [Writer(store, clock, f"w{at}") for at in range(3)]
    acknowledged: list[bytes] = []
    for step, (at, action, seconds, crash) in enumerate(actions):
        clock.now += seconds
        writer, store.crash = writers[at], crash
        try:
            if action == "follow" and writer.loaded:
                writer.follow()
            elif action in ("append", "reign") and writer.log.leads:
                for part in range(3 if action == "reign" else 1):
                    word = b"%d.%d" % (step, part)
                    (writer.reign if action == "reign" else writer.append)(word)
                    acknowledged.append(word)
            elif action == "snapshot" and writer.log.leads:
                writer.log.snapshot(b" ".join(writer.state))
            elif action == "lead" and not writer.log.leads:
                writer.lead()
            elif action == "restart":
                writers[at] = Writer(store, clock, f"w{at}")
        except FencedError:
            writer.drop()
        except OSError:
            writers[at] = Writer(store, clock, f"w{at}")
        store.crash = None
    reader = Writer(store, clock, "reader")
    assert reader.lead()
    assert len(set(reader.state)) == len(reader.state)
    positions = [reader.state.index(word) for word in acknowledged]
    assert positions == sorted(positions)


@pytest.mark.parametrize("entry", [
    Entry(4, 100, 2, 77, "query", 9, b"batches", b"responses"),
    Snapshot(4, 102, 77, b"state", {"query": (9, 41)}),
])  # fmt: skip
def test_every_flipped_bit_and_every_cut_is_noticed(entry: Entry | Snapshot) -> None:
    decode = decode_entry if isinstance(entry, Entry) else decode_snapshot
    content = encode(entry)
    assert decode("name", content) == entry
    for bit in range(8 * len(content)):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptEntryError, match=r"^name: "):
            decode("name", bytes(flipped))
    for length in range(len(content)):
        with pytest.raises(CorruptEntryError, match="restore the object from a copy"):
            decode("name", content[:length])


def test_a_snapshot_that_cannot_be_read_leaves_the_one_before() -> None:
    store, clock = MemoryStore(), Clock()
    leader = Writer(store, clock, "leader")
    assert leader.lead()
    leader.reign(b"a", b"b", seconds=0)
    names = sorted(name for name in store.objects if "snapshots" in name)
    store.objects[names[1]] = b"damaged"
    reader = Writer(store, clock, "reader")
    assert reader.lead()
    assert reader.state == [b"a", b"b"]
    store.objects[names[0]] = b"damaged too"
    with pytest.raises(CorruptEntryError, match="snapshots"):
        Writer(store, clock, "reader").lead()


def test_a_log_has_one_number_of_shards(tmp_path: Path) -> None:
    assert [log.shard for log in open_logs(tmp_path / "log", 4)] == [0, 1, 2, 3]
    assert len(open_logs(tmp_path / "log", 4)) == 4
    with pytest.raises(ArgumentError, match="has 4 shards: ask for as many"):
        open_logs(tmp_path / "log", 5)
    with pytest.raises(ArgumentError, match="0 is not at least 1"):
        open_logs(tmp_path / "log", 0)
