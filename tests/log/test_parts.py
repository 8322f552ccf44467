"""One directory that several processes write, each its own partitions, while another holds it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Event

import pytest
from log.test_lock import a_broker_is

from pykcoord.errors import CorruptLogError, LogError, LogLockedError
from pykcoord.log import Append, Holding, LogDirectory, Part, Properties
from pykcoord.log._record_batch import header
from pykcoord.log.checkpoint import read_cleaner_offsets
from pykcoord.log.folders import TOPIC

PARTITIONS = 5
# Opens some partitions of a directory that its parent holds, appends to all of them for ever, and
# prints each "shard end" that is committed.
WRITER = """
import os, sys, threading
from pykcoord.log import Append, LogDirectory, Part, Properties
directory, descriptor, partitions = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
shards = [int(shard) for shard in sys.argv[4].split(",")]

def begin(newest):
    print("newest", newest, flush=True)
    epoch, topic_id = sys.stdin.readline().split()
    return Properties(partitions, int(epoch), bytes.fromhex(topic_id), True)

part = Part(shards, descriptor, begin, lambda offsets: None)
log = LogDirectory.open(directory, partitions=partitions, segment_bytes=3000, part=part)
waiting = threading.Semaphore(16)

def done(committed, failed):
    assert not failed, failed
    os.write(1, "".join(f"{shard} {end}\\n" for shard, end in committed).encode())
    waiting.release()

ends = {shard: log.next_offset(shard) for shard in shards}
while True:
    waiting.acquire()
    log.append([Append(s, ends[s], 2, 1, 2, b"%d %d;" % (s, ends[s]) * 9) for s in shards], done)
    ends = {shard: end + 2 for shard, end in ends.items()}
"""


class Writers:
    """Processes that write parts of one directory."""

    def __init__(self, directory: Path) -> None:
        self.holding = Holding.take(directory, PARTITIONS, kept_by_children=True)
        self.committed: dict[int, int] = {}
        self.epochs: list[int] = []

    def start(self, shards: Sequence[int]) -> subprocess.Popen[str]:
        descriptor = self.holding.lock.descriptor
        command = [
            sys.executable, "-c", WRITER, str(self.holding.directory), str(descriptor),
            str(PARTITIONS), ",".join(map(str, shards)),
        ]  # fmt: skip
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, pass_fds=[descriptor]
        )
        assert process.stdout is not None
        assert process.stdin is not None
        word, newest = process.stdout.readline().split()
        assert word == "newest"
        properties = self.holding.begin(int(newest))
        self.epochs.append(properties.leader_epoch)
        process.stdin.write(f"{properties.leader_epoch} {properties.topic_id.hex()}\n")
        process.stdin.flush()
        return process

    def hear(self, process: subprocess.Popen[str], commits: int) -> None:
        """Wait for so many commits more."""
        assert process.stdout is not None
        for _ in range(commits):
            self._note(process.stdout.readline())

    def kill(self, process: subprocess.Popen[str]) -> None:
        process.send_signal(signal.SIGKILL)
        rest, _ = process.communicate()
        for line in rest.splitlines(keepends=True):
            self._note(line)

    def _note(self, line: str) -> None:
        if found := re.fullmatch(r"(\d+) (\d+)\n", line):
            shard, end = map(int, found.groups())
            assert end > self.committed.get(shard, 0)
            self.committed[shard] = end


def of_holding(holding: Holding, shards: Sequence[int], begin: object = None) -> Part:
    """A part in this process: its lock is a copy of the holder's."""
    started = holding.begin if begin is None else begin
    return Part(shards, os.dup(holding.lock.descriptor), started, holding.cleaned)  # type: ignore[arg-type]


def append(log: LogDirectory, shard: int, records: bytes = b"x") -> None:
    finished = Event()
    committed: list[tuple[int, int]] = []

    def done(ends: list[tuple[int, int]], failed: object) -> None:
        committed.extend(ends)
        finished.set()

    log.append([Append(shard, log.next_offset(shard), 1, 5, 5, records)], done)
    assert finished.wait(30)
    assert committed == [(shard, log.next_offset(shard))]


def test_others_write_on_while_one_is_killed_and_recovered(tmp_path: Path) -> None:
    writers = Writers(tmp_path)
    first, second = writers.start([0, 2, 4]), writers.start([1, 3])
    for _ in range(3):
        writers.hear(first, 30)
        writers.hear(second, 30)
        writers.kill(first)
        first = writers.start([0, 2, 4])
        writers.hear(second, 30)
    writers.kill(first)
    writers.kill(second)
    assert writers.epochs == list(range(5))
    writers.holding.close()

    # Another number of processes, and then one that writes all of it.
    writers = Writers(tmp_path)
    for shards in ([0, 3], [1, 4], [2]):
        process = writers.start(shards)
        writers.hear(process, 20)
        writers.kill(process)
    writers.holding.close()
    with LogDirectory.open(tmp_path, partitions=PARTITIONS) as log:
        assert log.leader_epoch == 8
        assert writers.committed.keys() == set(range(PARTITIONS))
        for shard, end in writers.committed.items():
            assert log.next_offset(shard) >= end
            content = b"".join(log.read(shard))
            at, epochs = 0, []
            while at < len(content):
                batch = header(content, at)
                epochs.append(batch.partition_leader_epoch)
                assert b"%d %d;" % (shard, batch.base_offset) in content[at : at + batch.size]
                at += batch.size
            assert epochs == sorted(epochs)


def test_nothing_is_changed_before_all_parts_were_read(tmp_path: Path) -> None:
    with LogDirectory.open(tmp_path, partitions=PARTITIONS) as log:
        for shard in (1, 1, 1, 2):
            append(log, shard)
    damaged = tmp_path / f"{TOPIC}-1" / f"{0:020d}.log"
    content = bytearray(damaged.read_bytes())
    content[70] ^= 1
    damaged.write_bytes(content)
    torn = tmp_path / f"{TOPIC}-2" / f"{0:020d}.log"
    torn.write_bytes(torn.read_bytes() + b"\0" * 9)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    holding = Holding.take(tmp_path, PARTITIONS, kept_by_children=True)
    asked: list[int] = []

    class Refused(Exception):
        """By who holds the directory, since another part cannot be opened."""

    def refuse(newest_epoch: int) -> Properties:
        asked.append(newest_epoch)
        raise Refused

    with pytest.raises(CorruptLogError):
        LogDirectory.open(tmp_path, partitions=5, part=of_holding(holding, [1, 4], refuse))
    with pytest.raises(Refused):
        LogDirectory.open(tmp_path, partitions=5, part=of_holding(holding, [0, 2], refuse))
    assert asked == [0]
    holding.close()
    after = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert after.pop(tmp_path / ".lock")
    assert after == {path: before[path] for path in after}


def test_the_lock_is_free_when_the_last_has_ended(tmp_path: Path) -> None:
    writers = Writers(tmp_path)
    first, second = writers.start([0]), writers.start([1])
    writers.hear(first, 1)
    writers.holding.close()  # as if it were killed
    for process in (first, second):
        with pytest.raises(LogLockedError):
            Holding.take(tmp_path, PARTITIONS)
        assert a_broker_is(tmp_path) == "refused"
        writers.kill(process)
    assert a_broker_is(tmp_path) == "locked"
    Holding.take(tmp_path, PARTITIONS).close()


def test_a_part_cannot_be_opened_without_the_lock(tmp_path: Path) -> None:
    with LogDirectory.open(tmp_path, partitions=PARTITIONS):
        stranger = os.open(tmp_path / ".lock", os.O_RDWR)

        def begin(newest_epoch: int) -> Properties:
            raise AssertionError(newest_epoch)

        part = Part([0], stranger, begin, lambda offsets: None)
        with pytest.raises(LogLockedError):
            LogDirectory.open(tmp_path, partitions=PARTITIONS, part=part)


def test_a_folder_that_went_is_not_made_anew(tmp_path: Path) -> None:
    holding = Holding.take(tmp_path, PARTITIONS, kept_by_children=True)
    assert holding.begin(-1).leader_epoch == 0
    folder = tmp_path / f"{TOPIC}-3"
    folder.rename(tmp_path / "aside")
    with pytest.raises(LogError, match="is missing"):
        holding.begin(-1)
    (tmp_path / "aside").rename(folder)
    assert holding.begin(-1).leader_epoch == 1
    assert holding.begin(7).leader_epoch == 8
    holding.close()


def test_the_cleaners_of_all_parts_share_one_checkpoint(tmp_path: Path) -> None:
    holding = Holding.take(tmp_path, PARTITIONS, kept_by_children=True)
    told: list[Mapping[int, int]] = []
    for shards in ([0, 3], [1, 4]):
        part = of_holding(holding, shards)
        with LogDirectory.open(tmp_path, partitions=PARTITIONS, part=part) as log:
            assert list(log.led) == shards
            files = log._held.files()
            told.append({shard: 10 + shard for shard in shards})
            files.write_cleaner_offsets(tmp_path, TOPIC, dict(told[-1]))
    assert read_cleaner_offsets(tmp_path, TOPIC) == {**told[0], **told[1]}
    holding.close()
