"""The contract of every log (`pykcoord.log.protocol.Log`): over each kind of log, over the store
that docs/embedding.md shows, and over two small ones that work in other ways: a journal of all
shards, and one whose end moves later."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.batches import data, decode
from support.hosting import FaultyStore
from support.pages import examples_of

from pykcoord.cluster.journals import JournalLog
from pykcoord.cluster.reading import Stretch
from pykcoord.log import Append, Done, Failure, LogDirectory, ShardReleasedError, Taken
from pykcoord.log._record_batch import frame
from pykcoord.log.shared.rounds import fence_journal

SHARDS = 3
SECONDS = 60
WAYS = ("directory", "journals", "page", "journal", "high watermark")


class Kept:
    """A loader that keeps what it is given."""

    def __init__(self) -> None:
        self.content = b""

    def replay(self, chunk: bytes) -> None:
        self.content += chunk

    restore = replay

    def snapshot_chunk(self) -> None:
        return None


class Told:
    """The calls of `done`: ends by shard, in order, and errors by shard."""

    def __init__(self) -> None:
        self.committed: list[tuple[int, int]] = []
        self.failed: list[tuple[int, Failure]] = []
        self._changed = threading.Condition()

    def __call__(self, committed: list[tuple[int, int]], failed: list[tuple[int, Failure]]) -> None:
        with self._changed:
            self.committed += committed
            self.failed += failed
            self._changed.notify_all()

    def wait(self, named: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.named >= named, SECONDS)

    @property
    def named(self) -> int:
        return len(self.committed) + len(self.failed)


class Journal:
    """One file for all shards, in memory: a turn is one entry, whole or not there."""

    incarnation = 0

    def __init__(self) -> None:
        self.shards = SHARDS
        self.entries: list[list[Append]] = []
        self.fails = False
        self._led: set[int] = set()
        self._lost: dict[int, Failure] = {}

    def take(self, shard: int, new_loader: Callable[[], Any]) -> Taken:
        loader, end = new_loader(), 0
        for append in [one for entry in self.entries for one in entry if one.shard == shard]:
            loader.replay(framed(append))
            end = append.base_offset + append.record_count
        self._led.add(shard)
        self._lost.pop(shard, None)
        return Taken(loader, end, 0)

    def release(self, shard: int) -> None:
        self._led.discard(shard)
        self._lost.pop(shard, None)

    def append(self, appends: Sequence[Append], done: Done) -> None:
        mine = [append for append in appends if append.shard in self._led]
        refused = {append.shard for append in appends} - self._led
        ends = {one.shard: one.base_offset + one.record_count for one in mine}
        errors: list[tuple[int, Failure]] = [
            (one, self._lost.get(one) or ShardReleasedError(one)) for one in refused
        ]
        if self.fails:
            self.fails = False
            self._led -= ends.keys()
            self._lost |= {shard: OSError("no space left") for shard in ends}
            errors += [(shard, self._lost[shard]) for shard in ends]
            ends = {}
        elif mine:
            self.entries.append(mine)
        done([*ends.items()], errors)

    def close(self) -> None:
        pass


class Assigned(JournalLog):
    """Journals of nodes that lead all shards one after the other, each fenced by the next."""

    def take(self, shard: int, new_loader: Callable[[], Any]) -> Taken:
        own = self.incarnation
        ends = {one: fence_journal(self._store, one, 0, own) for one in range(1, own)}
        stretches = [Stretch(one, one, 0, ends.get(one)) for one in range(1, own + 1)]
        self.assign(shard, own, stretches)
        return super().take(shard, new_loader)


class HighWatermark(Journal):
    """Appends are durable once `advance` is called, as where replicas follow a leader."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: list[tuple[Sequence[Append], Done]] = []

    def append(self, appends: Sequence[Append], done: Done) -> None:
        self._waiting.append((appends, done))

    def advance(self) -> None:
        waiting, self._waiting = self._waiting, []
        for appends, done in waiting:
            super().append(appends, done)

    def release(self, shard: int) -> None:
        super().release(shard)
        kept = []
        for appends, done in self._waiting:
            if any(append.shard == shard for append in appends):
                done([], [(shard, ShardReleasedError(shard))])
                appends = [append for append in appends if append.shard != shard]
            if appends:
                kept.append((appends, done))
        self._waiting = kept

    def take(self, shard: int, new_loader: Callable[[], Any]) -> Taken:
        self.release(shard)
        return super().take(shard, new_loader)


def store_of_the_page() -> Any:
    """The class of the example in docs/embedding.md, "A store of your own"."""
    (example,) = [code for code, _ in examples_of("docs/embedding.md") if "def take(" in code]
    names: dict[str, Any] = {}
    exec(example.partition("\nfor ")[0], names)
    names["Journal"].shards = SHARDS
    return names["Journal"]


class Backend:
    """A log of one kind; `again` opens what it wrote, as the next process does."""

    def __init__(self, way: str, folder: Path) -> None:
        self._way, self._folder, self._store = way, folder, FaultyStore()
        self.log: Any = self._open()

    def _open(self) -> Any:
        if self._way == "directory":
            return LogDirectory.open(self._folder, partitions=SHARDS, new_loader=Kept)
        if self._way == "journals":
            return Assigned(self._store, SHARDS, 1 + getattr(self, "log", Journal()).incarnation)
        if self._way == "page":
            self._folder.mkdir(exist_ok=True)
            return store_of_the_page()(self._folder / "journal.log")
        return Journal() if self._way == "journal" else HighWatermark()

    def again(self) -> Any:
        self.log.close()
        if isinstance(self.log, Journal):
            before, self.log = self.log, self._open()
            self.log.entries = before.entries
        else:
            self.log = self._open()
        return self.log

    def append(self, appends: Sequence[Append], told: Told) -> None:
        before = told.named
        self.log.append(appends, told)
        if isinstance(self.log, HighWatermark):
            assert told.named == before, "named before it is durable"
            self.log.advance()

    def fail_next(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The next append fails, of whatever shard."""
        if self._way == "directory":
            monkeypatch.setattr("pykcoord.log.partition.Partition.prepare", no_space)
        elif self._way == "journals":
            self._store.faults += ["before"] * 3
        elif self._way == "page":
            monkeypatch.setattr("os.fsync", no_space)
        else:
            self.log.fails = True


@pytest.fixture(params=WAYS)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    made = Backend(request.param, tmp_path / "log")
    yield made
    made.log.close()


def record(shard: int, base_offset: int, count: int = 1) -> Append:
    made = data(base_offset, [(b"key", b"value")] * count)
    return Append(shard, base_offset, count, 1000, 999 + count, made.encode()[61:])


def no_space(*_: object) -> None:
    raise OSError("no space left")


def offsets(loader: Kept) -> list[int]:
    return [one.offset for each in decode([loader.content]) for one in each.records]


def framed(append: Append) -> bytes:
    _, base_offset, count, base_timestamp, max_timestamp, records, *of = append
    return frame(records, count, base_offset, base_timestamp, max_timestamp, 0, *of)


def test_a_new_shard_begins_at_offset_0_without_content(backend: Backend) -> None:
    for shard in range(backend.log.shards):
        taken = backend.log.take(shard, Kept)
        assert (taken.next_offset, taken.loader.content) == (0, b"")


def test_one_call_makes_records_of_all_shards_durable_and_names_each_once(
    backend: Backend,
) -> None:
    for shard in range(SHARDS):
        backend.log.take(shard, Kept)
    told = Told()
    turn = [record(0, 0), record(0, 1, 2), record(2, 0, 5)]
    backend.append(turn, told)
    told.wait(2)
    assert (sorted(told.committed), told.failed) == ([(0, 3), (2, 5)], [])
    log = backend.again()
    found = [log.take(shard, Kept) for shard in range(SHARDS)]
    assert [one.next_offset for one in found] == [3, 0, 5]
    assert [offsets(one.loader) for one in found] == [[0, 1, 2], [], [0, 1, 2, 3, 4]]


def test_ends_of_a_shard_rise_over_many_calls(backend: Backend) -> None:
    backend.log.take(1, Kept)
    told = Told()
    for offset in range(20):
        backend.append([record(1, offset)], told)
    told.wait(20)
    assert told.committed == [(1, offset + 1) for offset in range(20)]
    taken = backend.again().take(1, Kept)
    assert (taken.next_offset, offsets(taken.loader)) == (20, list(range(20)))


def test_a_shard_that_is_released_takes_no_appends_until_it_is_taken_again(
    backend: Backend,
) -> None:
    for shard in (0, 1):
        backend.log.take(shard, Kept)
    backend.log.release(0)
    told = Told()
    backend.append([record(0, 0), record(1, 0)], told)
    told.wait(2)
    assert told.committed == [(1, 1)]
    ((shard, error),) = told.failed
    assert (shard, type(error)) == (0, ShardReleasedError)
    assert backend.log.take(0, Kept).next_offset == 0
    backend.append([record(0, 0)], later := Told())
    later.wait(1)
    assert later.committed == [(0, 1)]


def test_release_names_all_that_was_on_its_way(backend: Backend) -> None:
    backend.log.take(0, Kept)
    told = Told()
    for offset in range(3):
        backend.log.append([record(0, offset)], told)
    backend.log.release(0)
    assert Counter(shard for shard, _ in [*told.committed, *told.failed]) == {0: 3}
    assert all(isinstance(error, ShardReleasedError) for _, error in told.failed)


def test_after_a_failure_nothing_is_appended_until_the_shard_is_taken_again(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend.log.take(0, Kept)
    backend.append([record(0, 0)], before := Told())
    before.wait(1)
    with monkeypatch.context() as patched:
        backend.fail_next(patched)
        backend.append([record(0, 1)], failing := Told())
        failing.wait(1)
    backend.append([record(0, 2)], behind := Told())
    behind.wait(1)
    assert [shard for shard, _ in [*failing.failed, *behind.failed]] == [0, 0]
    assert failing.committed == behind.committed == []
    assert not any(isinstance(error, ShardReleasedError) for _, error in behind.failed), "not asked"
    assert backend.log.take(0, Kept).next_offset == 1
    backend.append([record(0, 1)], after := Told())
    after.wait(1)
    assert after.committed == [(0, 2)]
