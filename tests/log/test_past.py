"""What compaction replaced and kept, put back: the log of any time since the history begins."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from support.batches import ABORT, COMMIT, Batch, data, decode, marker
from support.compacting import (
    NOW_MS,
    compact,
    compaction,
    meaning,
    partition,
    read_log,
    write_log,
)

from pykcoord.errors import CorruptLogError
from pykcoord.log import LogReader, Past
from pykcoord.log.compaction.files import Files
from pykcoord.log.compaction.history import HISTORY_FOLDER, kept_folders
from pykcoord.log.folders import TOPIC

ROUND_MS = 10_000
KEPT_MS = 5 * ROUND_MS
KEYS = [b"\0\1" + name for name in (b"a", b"b", b"c", b"d", b"e", b"f")]


def read_past(root: Path) -> tuple[list[Batch], int | None]:
    past = Past(LogReader.open(root), 0)
    return list(decode(past.read())), past.complete_since_ms


def known(batches: Sequence[Batch], time_ms: int) -> tuple[object, object]:
    """The state of that time; where the log ends does not belong to it."""
    until = [one for one in batches if one.records and one.records[-1].timestamp <= time_ms]
    found = meaning(until)
    return found.values, found.pending


class Grown:
    """A log that grows by a segment a round, some of it by transactions, and is compacted."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root = write_log(root, [[data(0, [(KEYS[0], b"first")], timestamp=NOW_MS)]])
        self.whole = read_log(self.root)
        self.now_ms = NOW_MS
        self.times = [NOW_MS]
        self._random = random.Random(seed)

    def grow(self) -> None:
        self.now_ms += ROUND_MS
        self.times.append(self.now_ms)
        offset = self.whole[-1].last_offset + 1
        made: list[Batch] = []
        for _ in range(self._random.randint(1, 4)):
            producer = self._random.choice([-1, -1, 7])
            keys = self._random.sample(KEYS, self._random.randint(1, 3))
            records = [
                (key, self._random.choice([None, b"%d" % self._random.randrange(100)]))
                for key in keys
            ]
            made.append(data(offset, records, producer, self.now_ms))
            offset = made[-1].last_offset + 1
            if producer >= 0:
                kind = self._random.choice([COMMIT, ABORT])
                made.append(marker(offset, producer, kind, self.now_ms + 100))
                offset += 1
        path = self.root / f"{TOPIC}-0" / f"{made[0].base_offset:020d}.log"
        path.write_bytes(b"".join(batch.encode() for batch in made))
        self.whole += made

    def compact(self, files: Files | None = None, **settings: int) -> None:
        how = compaction(self.now_ms + ROUND_MS // 2, **settings)
        compact(self.root, how, segment_bytes=400, files=files)


@pytest.mark.parametrize("seed", range(5))
def test_a_history_without_end_is_the_whole_log(tmp_path, seed):
    log = Grown(tmp_path, seed)
    for _ in range(8):
        log.grow()
        log.compact(history_retention_ms=10**12)
    batches, complete_since_ms = read_past(log.root)
    assert complete_since_ms is None
    assert [one.base_offset for one in batches] == [one.base_offset for one in log.whole]
    assert [one.records for one in batches] == [one.records for one in log.whole]
    assert len(read_log(log.root)) < len(log.whole), "something was compacted"


@pytest.mark.parametrize("seed", range(5))
def test_all_times_since_the_history_begins_are_known(tmp_path, seed):
    log = Grown(tmp_path, seed)
    for _ in range(14):
        log.grow()
        log.compact(history_retention_ms=KEPT_MS, delete_retention_ms=ROUND_MS)
    batches, complete_since_ms = read_past(log.root)
    assert complete_since_ms is not None, "something has expired"
    assert complete_since_ms < log.now_ms + ROUND_MS // 2 - KEPT_MS
    times = [time for time in log.times if time >= complete_since_ms]
    assert len(times) >= KEPT_MS // ROUND_MS
    for time in times:
        assert known(batches, time) == known(log.whole, time), (seed, time)


def test_what_is_not_kept_is_not_claimed(tmp_path):
    log = Grown(tmp_path, 1)
    log.grow()
    log.grow()
    log.compact()
    _, complete_since_ms = read_past(log.root)
    assert complete_since_ms in range(log.times[-2], log.times[-1])
    # A history that begins later says so, and one that was turned off meanwhile does, too.
    log.grow()
    log.compact(history_retention_ms=KEPT_MS)
    began_ms = log.now_ms + ROUND_MS // 2
    assert read_past(log.root)[1] == began_ms
    log.grow()
    log.compact()
    assert read_past(log.root)[1] == log.now_ms + ROUND_MS // 2


def test_nothing_is_missing_in_a_log_that_was_never_compacted(tmp_path):
    log = Grown(tmp_path, 1)
    log.grow()
    batches, complete_since_ms = read_past(log.root)
    assert (batches, complete_since_ms) == (log.whole, None)


def test_the_history_ends_when_it_is_turned_off(tmp_path):
    log = Grown(tmp_path, 2)
    for _ in range(3):
        log.grow()
        log.compact(history_retention_ms=KEPT_MS)
    folder = log.root / f"{TOPIC}-0"
    assert kept_folders(folder)
    log.grow()
    log.compact()
    assert kept_folders(folder) == []


def test_a_damaged_file_of_the_history_is_named_and_the_log_is_not_concerned(tmp_path):
    log = Grown(tmp_path, 3)
    for _ in range(3):
        log.grow()
        log.compact(history_retention_ms=KEPT_MS)
    before = read_log(log.root)
    (first, *_) = sorted(kept_folders(log.root / f"{TOPIC}-0")[0].glob("*.log"))
    damaged = bytearray(first.read_bytes())
    damaged[-1] ^= 1
    first.unlink()  # a file of its own, not the segment that shares it
    first.write_bytes(damaged)
    with pytest.raises(CorruptLogError, match=f"{first}.*the groups do not need it"):
        read_past(log.root)
    assert read_log(log.root) == before


class Crash(BaseException):
    """The process is gone."""


class CrashingFiles(Files):
    """Ends at the name that is made, changed or removed after `count` others."""

    def __init__(self, count: int) -> None:
        super().__init__(self._count)
        self.left = count

    def _count(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Crash


def test_a_crash_at_any_step_takes_nothing_of_the_history(tmp_path):
    crashes = 0
    for count in range(200):
        log = Grown(tmp_path / str(count), 4)
        for _ in range(3):
            log.grow()
            log.compact(history_retention_ms=KEPT_MS)
        for _ in range(6):
            log.grow()
        try:
            log.compact(CrashingFiles(count), history_retention_ms=KEPT_MS)
        except Crash:
            crashes += 1
        else:
            break
        partition(log.root).close()  # a start, which puts right what the crash left
        for how in ("after the crash", "after the next compaction"):
            batches, complete_since_ms = read_past(log.root)
            for time in log.times:
                if time >= (complete_since_ms or 0):
                    assert known(batches, time) == known(log.whole, time), (count, how, time)
            log.compact(history_retention_ms=KEPT_MS)
    assert crashes > 10
    assert (log.root / f"{TOPIC}-0" / HISTORY_FOLDER / "complete-since").exists()
