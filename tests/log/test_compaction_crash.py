"""A crash, or a disk that fails, at every step of a compaction: either the old log is there
afterwards or the new one, and nothing of it is lost."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.batches import ABORT, Batch, data, marker
from support.compacting import (
    compact,
    compaction,
    meaning,
    partition,
    read_log,
    write_log,
)

from pykcoord.errors import LogError
from pykcoord.log import LogReader, verify
from pykcoord.log.compaction import LogCleaner
from pykcoord.log.compaction.files import Files
from pykcoord.log.folders import TOPIC


class Crash(BaseException):
    """The process is gone."""


class FailingFiles(Files):
    """Does `count` operations; the next raises `error`, after doing half of a write."""

    def __init__(self, count: int, error: Callable[[], BaseException], times: int = 1) -> None:
        super().__init__()
        self.left = count
        self.failures = times
        self.error = error
        self.done = 0

    def _count(self) -> None:
        if self.left > 0:
            self.left -= 1
            self.done += 1
        elif self.failures > 0:
            self.failures -= 1
            raise self.error()

    def create(self, path):
        self._count()
        return super().create(path)

    def write(self, descriptor, data):
        try:
            self._count()
        except BaseException:
            os.write(descriptor, data[: len(data) // 2])
            raise
        super().write(descriptor, data)

    def sync(self, descriptor):
        self._count()
        super().sync(descriptor)

    def rename(self, path, name):
        self._count()
        super().rename(path, name)

    def unlink(self, path):
        self._count()
        super().unlink(path)

    def sync_directory(self, directory):
        self._count()
        super().sync_directory(directory)

    def write_cleaner_offsets(self, directory, topic, offsets):
        self._count()
        super().write_cleaner_offsets(directory, topic, offsets)


SEGMENT_BYTES = 700


def log() -> list[list[Batch]]:
    """Two groups of two segments each, an empty one, a transaction, tombstones."""
    first = [data(0, [(b"\0\1a", b"x" * 200), (b"\0\1b", b"1")]), data(2, [(b"\0\1c", None)])]
    second = [data(3, [(b"\0\1a", b"y" * 200)], 7), marker(4, 7, ABORT)]
    third = [data(5, [(b"\0\1a", b"z" * 200), (b"\0\1d", b"1")])]
    fourth = [data(7, [(b"\0\1d", b"w" * 200)]), data(8, [(b"\0\1b", b"2")])]
    return [first, second, third, fourth, [data(9, [(b"\0\1a", b"active")])]]


def steps() -> Iterator[int]:
    return iter(range(200))


@pytest.fixture
def whole() -> list[Batch]:
    return [batch for segment in log() for batch in segment]


def test_a_crash_after_any_step_leaves_the_old_log_or_the_new(tmp_path, whole):
    before = meaning(whole)
    crashed = 0
    for count in steps():
        root = write_log(tmp_path / str(count), log())
        files = FailingFiles(count, Crash, times=10**6)
        try:
            compact(root, segment_bytes=SEGMENT_BYTES, files=files)
        except Crash:
            crashed += 1
        else:
            break
        # A reader sees it whole beside the wreck; a start puts it right; then it can be finished.
        assert meaning(read_log(root)) == before, count
        assert verify(root).sound, count
        partition(root).close()
        left = {path.suffix for path in (root / f"{TOPIC}-0").iterdir()}
        assert left <= {".log", ""}, count
        assert meaning(read_log(root)) == before, count
        compact(root, segment_bytes=SEGMENT_BYTES)
        assert meaning(read_log(root)) == before, count
        assert len(read_log(root)) < len(whole)
    # Create, write, sync and a swap of two old ones, for two groups.
    assert crashed > 20


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EROFS])
def test_after_any_failure_it_goes_on_where_it_was(tmp_path, whole, code, caplog):
    """In the same process: the cleaner gives up, the log can be read and written, and the next
    attempt completes the compaction."""
    before = meaning(whole)
    failed = 0
    for count in steps():
        root = write_log(tmp_path / str(count), log())
        files = FailingFiles(count, lambda: OSError(code, os.strerror(code)), times=2)
        opened = partition(root, SEGMENT_BYTES)
        how = compaction(backoff_ms=0)
        cleaner = LogCleaner(root, TOPIC, {0: opened}, SEGMENT_BYTES, how, files)
        with caplog.at_level(logging.WARNING):
            caplog.clear()
            for _ in range(4):
                cleaner.clean_dirtiest()
                assert meaning(read_log(root)) == before, count
        told = [record for record in caplog.records if record.levelno == logging.WARNING]
        if not told:
            opened.close()
            break
        failed += 1
        assert len(told) == 1
        assert os.strerror(code) in told[0].message
        assert not cleaner.clean_dirtiest()
        assert len(read_log(root)) < len(whole)
        # The open partition's view equals the files.
        assert sum(map(len, opened.read())) == opened.size_bytes
        opened.close()
        assert {path.suffix for path in (root / f"{TOPIC}-0").iterdir()} <= {".log", ""}, count
    assert failed > 20


def test_another_cleaner_touches_nothing_of_an_exchange_that_has_begun(tmp_path, whole):
    """As by a second call of `LogDirectory.compact`: the files there may be the only copy."""
    before = meaning(whole)
    told: list[str] = []
    for count in steps():
        root = write_log(tmp_path / str(count), log())
        opened = partition(root, SEGMENT_BYTES)
        files = FailingFiles(count, lambda: OSError(errno.EIO, os.strerror(errno.EIO)))
        try:
            LogCleaner(root, TOPIC, {0: opened}, SEGMENT_BYTES, compaction(), files).clean_all()
        except OSError:
            names = sorted((root / f"{TOPIC}-0").iterdir())
            try:
                LogCleaner(root, TOPIC, {0: opened}, SEGMENT_BYTES, compaction()).clean_all()
            except LogError as error:
                told.append(str(error))
                unchanged = sorted((root / f"{TOPIC}-0").iterdir()) == names
                told += [] if unchanged else [f"changed after {count}"]
            assert meaning(read_log(root)) == before, count
            opened.close()
            partition(root).close()
            assert meaning(read_log(root)) == before, count
        else:
            opened.close()
            break
    assert len(told) > 5
    assert all("open the log again" in line for line in told)


def test_a_broken_segment_is_not_compacted(tmp_path, whole, caplog):
    root = write_log(tmp_path, log())
    opened = partition(root, SEGMENT_BYTES)
    path = root / f"{TOPIC}-0" / f"{3:020d}.log"
    broken = bytearray(path.read_bytes())
    broken[70] ^= 1
    path.write_bytes(broken)
    names = sorted((root / f"{TOPIC}-0").iterdir())
    cleaner = LogCleaner(root, TOPIC, {0: opened}, SEGMENT_BYTES, compaction())
    with caplog.at_level(logging.WARNING):
        assert cleaner.clean_dirtiest()
    assert str(path) in caplog.text
    assert "byte 0" in caplog.text
    assert sorted((root / f"{TOPIC}-0").iterdir()) == names
    opened.close()


def test_a_swap_that_recovery_finishes_takes_the_old_indexes_along(tmp_path, whole):
    before = meaning(whole)
    for count in steps():
        root = write_log(tmp_path / str(count), log())
        folder = root / f"{TOPIC}-0"
        for path in list(folder.glob("*.log")):
            path.with_suffix(".index").write_bytes(b"old")
            path.with_suffix(".timeindex").write_bytes(b"old")
        try:
            compact(root, segment_bytes=SEGMENT_BYTES, files=FailingFiles(count, Crash, 10**6))
        except Crash:
            partition(root).close()
            assert meaning(read_log(root)) == before
            cleaned = {path.stem for path in folder.glob("*.log")}
            assert {path.stem for path in folder.glob("*.index")} <= cleaned
            continue
        break
    stems = {path.stem for path in folder.glob("*.log")}
    indexes = {path.stem for path in folder.glob("*index")}
    assert f"{9:020d}" in indexes < stems


def test_a_reader_beside_it_never_sees_a_hole(tmp_path, whole):
    """Another process lists, then opens: between the two a file may have gone."""
    before = meaning(whole)

    class Watched(Files):
        def rename(self, path: Path, name: Path) -> None:
            super().rename(path, name)
            try:
                found = read_log(root)
            except LogError as error:
                pytest.fail(str(error))
            assert meaning(found) == before

    root = write_log(tmp_path, log())
    compact(root, segment_bytes=SEGMENT_BYTES, files=Watched())
    assert LogReader.open(root).next_offset(0) == 10
