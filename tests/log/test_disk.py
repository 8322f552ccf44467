"""Writing and syncing many files in one step: what the system says of each."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykcoord.log._disk import Outcome, write_files


@pytest.fixture
def files(tmp_path: Path) -> Iterator[list[int]]:
    descriptors = [os.open(tmp_path / str(number), os.O_RDWR | os.O_CREAT) for number in range(40)]
    yield descriptors
    for descriptor in descriptors:
        os.close(descriptor)


def _failure(files: list[tuple[int, int, list[bytes]]]) -> Outcome:
    (outcome,) = write_files(files, True)
    assert outcome is not None
    return outcome


@pytest.mark.parametrize("sync", [False, True])
def test_every_file_gets_its_batches_behind_its_end(files: list[int], sync: bool):
    batches = [[b"%d," % number] * number for number in range(40)]
    first = write_files([(file, 0, batches[n]) for n, file in enumerate(files)], sync)
    assert first == [None] * 40
    sizes = [os.fstat(file).st_size for file in files]
    requests = [(file, sizes[n], [b"more"]) for n, file in enumerate(files)]
    assert write_files(requests, sync) == [None] * 40
    for number, file in enumerate(files):
        assert os.pread(file, 1000, 0) == b"".join(batches[number]) + b"more"


def test_more_parts_than_one_call_takes(files: list[int]):
    parts = [b"%d;" % number for number in range(5000)]
    assert write_files([(files[0], 0, parts)], True) == [None]
    assert os.pread(files[0], 100_000, 0) == b"".join(parts)


def test_nothing_to_write():
    assert write_files([], True) == []


def test_a_file_that_changed_is_left_alone(files: list[int], tmp_path: Path):
    os.pwrite(files[0], b"theirs", 0)
    (tmp_path / "1").unlink()
    outcomes = write_files([(files[n], 0, [b"ours"]) for n in range(3)], True)
    assert outcomes[0] == Outcome(6, 1, errno.ESTALE, 0)
    assert outcomes[1] == Outcome(0, 0, errno.ESTALE, 0)
    assert outcomes[2] is None
    assert os.pread(files[0], 10, 0) == b"theirs"
    assert os.fstat(files[1]).st_size == 0


def test_a_short_write_is_continued_until_the_system_says_why(files: list[int]):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        requests = [(files[0], 0, [b"x" * 300] * 5), (files[1], 0, [b"y" * 300])]
        outcomes = write_files(requests, True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert outcomes == [Outcome(0, 1, errno.EFBIG, 0), None]
    assert os.fstat(files[0]).st_size == 1000


def test_the_lock_is_looked_at_behind_the_writes(files: list[int], tmp_path: Path):
    """The name of another file, or none: nothing of the round may be answered."""
    status = os.fstat(files[3])
    lock = (os.fsencode(tmp_path / "3"), status.st_dev, status.st_ino)
    requests = [(files[n], 0, [b"ours"]) for n in range(2)]
    assert write_files(requests, True, lock) == [None, None]
    (tmp_path / "2").rename(tmp_path / "3")
    requests = [(files[n], 4, [b"more"]) for n in range(2)]
    assert write_files(requests, True, lock) == [Outcome(4, 1, 0, 0, errno.ESTALE)] * 2
    assert os.pread(files[1], 10, 0) == b"oursmore"
    (tmp_path / "3").unlink()
    assert write_files([(files[0], 8, [])], False, lock) == [Outcome(8, 1, 0, 0, errno.ENOENT)]


def test_what_cannot_be_synced_is_said_so():
    """A pipe takes neither offsets nor syncs; a closed descriptor nothing at all."""
    reading, writing = os.pipe()
    try:
        assert _failure([(writing, 0, [])]).sync_error == errno.EINVAL
        assert _failure([(writing, 0, [b"x"])]).write_error == errno.ESPIPE
    finally:
        os.close(reading)
        os.close(writing)
    assert _failure([(writing, 0, [])]).write_error == errno.EBADF
