"""A writing process killed anywhere, and a file that cannot grow: everything committed is there."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pykcoord.log import LogDirectory
from pykcoord.log._record_batch import header

# Appends for ever to all shards and prints each "shard end" that is reported committed. The
# records say where they belong. KILL_AT=N: the process kills itself at its Nth write or sync,
# having written half.
WRITER = """
import itertools, os, signal, sys, threading
from pykcoord.log import Append, LogDirectory, partition, writer

kill_at = int(os.environ.get("KILL_AT", "0"))
calls = itertools.count(1)

def killing(module, name):
    real = getattr(module, name)
    def call(*arguments):
        if next(calls) == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments)
    setattr(module, name, call)

def write_files(files, sync, lock=None):
    # As the real one, with a place to die in the middle of each write and before each sync.
    for descriptor, size, batches in files:
        whole = b"".join(batches)
        os.pwrite(descriptor, whole[:len(whole) // 2], size)
        os.pwrite(descriptor, whole[len(whole) // 2:], size + len(whole) // 2)
    for descriptor, *_ in files:
        if sync:
            os.fdatasync(descriptor)
    return [None] * len(files)

if kill_at:
    for name in ("pwrite", "fdatasync", "fsync", "replace", "unlink", "mkdir"):
        killing(os, name)
    partition.write_files = writer.write_files = write_files
shards, waiting = 4, threading.Semaphore(64)
log = LogDirectory.open(sys.argv[1], partitions=shards, segment_bytes=3000)

def done(committed, failed):
    assert not failed, failed
    os.write(1, "".join(f"{shard} {end}\\n" for shard, end in committed).encode())
    waiting.release()

ends = [log.next_offset(shard) for shard in range(shards)]
for turn in range(int(sys.argv[2])):
    appends = []
    waiting.acquire()
    for shard in range(turn % shards + 1):
        appends.append(Append(shard, ends[shard], 2, 1, 2, b"%d %d;" % (shard, ends[shard]) * 9))
        ends[shard] += 2
    log.append(appends, done)
log.close()
"""

LIMITED = """
import errno, os, resource, sys, threading
from pykcoord.log import Append, LogDirectory
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
log = LogDirectory.open(sys.argv[1], partitions=2)
outcome, finished = [], threading.Semaphore(0)

def done(committed, failed):
    outcome.append((committed, failed))
    finished.release()

for offset in range(10):
    log.append([Append(0, offset, 1, 1, 1, b"x" * 700)], done)
    finished.acquire()
assert [bool(committed) for committed, _ in outcome] == [True] * 6 + [False] * 4, outcome
assert all(error.errno == errno.EFBIG for _, failed in outcome for _, error in failed)
log.append([Append(1, 0, 1, 1, 1, b"x")], done)
finished.acquire()
assert outcome[-1] == ([(1, 1)], []), outcome[-1]
assert os.path.getsize(os.path.join(sys.argv[1], "__consumer_offsets-0", "0" * 20 + ".log")) == 4566
log.reopen(0)
assert log.next_offset(0) == 6
log.close()
"""


def start(path: Path, turns: int, kill_at: int = 0) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "KILL_AT": str(kill_at)}
    command = [sys.executable, "-c", WRITER, str(path), str(turns)]
    return subprocess.Popen(
        command, bufsize=0, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    )


def note(output: bytes, committed: dict[int, int]) -> None:
    """A line that the kill cut short reports nothing."""
    for line in output.split(b"\n")[:-1]:
        shard, end = map(int, line.split())
        committed[shard] = max(end, committed.get(shard, 0))


def check(path: Path, committed: dict[int, int]) -> None:
    """All that was reported is there, in order, and what it was."""
    with LogDirectory.open(path, partitions=4) as log:
        for shard in range(4):
            assert log.next_offset(shard) >= committed.get(shard, 0)
            content = b"".join(log.read(shard))
            position = offset = 0
            while position < len(content):
                batch = header(content, position)
                assert batch.base_offset == offset
                records = content[position + 61 : position + batch.size]
                assert records == b"%d %d;" % (shard, offset) * 9
                position, offset = position + batch.size, offset + batch.record_count
            assert offset == log.next_offset(shard)


@pytest.mark.crash
def test_killed_at_random_under_load(tmp_path: Path):
    chance = random.Random(6)
    committed: dict[int, int] = {}
    for _ in range(12):
        writer = start(tmp_path, turns=1_000_000)
        assert writer.stdout is not None
        seen = b"".join(writer.stdout.readline() for _ in range(chance.randrange(1, 3000)))
        writer.kill()
        rest, _ = writer.communicate()
        assert writer.returncode == -signal.SIGKILL
        note(seen + rest, committed)
        check(tmp_path, committed)
    assert min(committed.values()) > 100


@pytest.mark.crash
def test_killed_at_each_write_and_sync(tmp_path: Path):
    """Each process dies one call later than the last, until one gets through all of them."""
    kill_at, committed = 1, dict[int, int]()
    while True:
        path = tmp_path / str(kill_at)
        before = path.parent / str(kill_at - 1)
        if before.exists():
            before.rename(path)
        writer = start(path, turns=30, kill_at=kill_at)
        output, errors = writer.communicate(timeout=60)
        note(output, committed)
        if path.exists():
            check(path, committed)
        if writer.returncode == 0:
            break
        assert writer.returncode == -signal.SIGKILL, errors.decode()
        kill_at += 1
    assert kill_at > 20
    assert len(committed) == 4


@pytest.mark.crash
def test_a_file_that_cannot_grow(tmp_path: Path):
    subprocess.run([sys.executable, "-c", LIMITED, str(tmp_path)], check=True, timeout=60)
