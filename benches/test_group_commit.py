"""Group commit against a sync for each batch: what arrives while a sync runs shares the next one.

How fast either is, the disk says; the gate counts syncs.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benches.gate import ROUNDS, Size
from pykcoord.log import Append, Failure, LogDirectory, _record_batch

# Syncs that are saved when this many batches arrive together.
WAITING = 64
LEAST_BATCHES_A_SYNC = 8
RECORDS = bytes(5 * 100)
BATCH_RECORDS = 5
SHARDS = 4


def _frame(offset: int) -> bytes:
    return _record_batch.frame(RECORDS, BATCH_RECORDS, offset, 1, 1, 0)


class Syncs:
    """Counts what the writer thread syncs: an observer of the log."""

    def __init__(self) -> None:
        self.count = 0

    def appended(self, shard: int, batches: int, size_bytes: int) -> None:
        pass

    def synced(self, files: int, seconds: float) -> None:
        self.count += files


class Writers:
    """`WAITING` callers, each of which appends again as soon as its batch is durable."""

    def __init__(self, directory: Path, batches: int) -> None:
        self.syncs = Syncs()
        self._batches = batches
        self._left = batches
        self._offsets = [0] * SHARDS
        self._over = threading.Event()
        self._log = LogDirectory.open(directory, partitions=SHARDS, observer=self.syncs)
        self._submitting = threading.Lock()

    def run(self) -> None:
        for caller in range(min(WAITING, self._batches)):
            self._append(caller % SHARDS)
        assert self._over.wait(120)
        self._log.close()

    def _append(self, shard: int) -> None:
        with self._submitting:
            offset = self._offsets[shard]
            self._offsets[shard] = offset + BATCH_RECORDS
            append = Append(shard, offset, BATCH_RECORDS, 1, 1, RECORDS)
            self._log.append([append], self._done)

    def _done(self, committed: list[tuple[int, int]], failed: list[tuple[int, Failure]]) -> None:
        assert not failed
        with self._submitting:
            self._left -= 1
            left = self._left
        if left == 0:
            self._over.set()
        elif left >= WAITING:
            self._append(committed[0][0])


@pytest.fixture
def directories(tmp_path: Path) -> Iterator[Path]:
    return (tmp_path / str(number) for number in itertools.count())


def sync_each(path: Path, batches: int) -> None:
    """The plain way: a write and a sync for each batch."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
    for number in range(batches):
        os.write(descriptor, _frame(number * BATCH_RECORDS))
        os.fdatasync(descriptor)
    os.close(descriptor)


@pytest.mark.benchmark(group="batches made durable")
@pytest.mark.parametrize("way", ["group commit", "sync each"])
def test_group_commit(
    benchmark: BenchmarkFixture, directories: Iterator[Path], size: Size, way: str
) -> None:
    batches = size.of(1_000, 200)
    if way == "group commit":
        benchmark.pedantic(
            lambda writers: writers.run(),
            setup=lambda: ((Writers(next(directories), batches),), {}),
            rounds=ROUNDS,
        )
    else:
        benchmark.pedantic(
            sync_each, setup=lambda: ((next(directories), batches), {}), rounds=ROUNDS
        )
    benchmark.extra_info["batches"] = batches


def test_gate_group_commit_shares_its_syncs(directories: Iterator[Path], size: Size) -> None:
    """A count, not a time: how long a sync takes is the disk's affair."""
    batches = size.of(1_000, 200)
    writers = Writers(next(directories), batches)
    writers.run()
    told = f"{writers.syncs.count} files synced for {batches} batches"
    size.hold(batches >= LEAST_BATCHES_A_SYNC * writers.syncs.count, told)
