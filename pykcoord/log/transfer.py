"""Carrying a log from one place to another: where it comes from, and the new directory.

Knows partitions, batches and files; what the records mean is the caller's. A source is held
against writers while it is read and never written to. A target appears whole, under its name, or
not at all: everything is written beside it, synced, and renamed at the end.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Self

from pykcoord.errors import ArgumentError, LogError
from pykcoord.log import checkpoint, recovery
from pykcoord.log._record_batch import frame, reframe
from pykcoord.log.checkpoint import Properties
from pykcoord.log.compaction.history import begin_history
from pykcoord.log.durable import (
    make_directory,
    new_directory,
    private,
    sync_directory,
    sync_file,
)
from pykcoord.log.folders import TOPIC, missing_of, partition_directories
from pykcoord.log.lock import DirectoryLock
from pykcoord.log.partition import read_segments
from pykcoord.log.protocol import Cut, OnCorruption
from pykcoord.log.recovery import Found
from pykcoord.log.segment import segment_name

__all__ = [
    "Batch",
    "KafkaTopic",
    "Source",
    "Target",
    "framed",
    "holds_records",
    "kafka_topics",
    "offsets_topic",
]

_LEADER_EPOCH = 0
_TRANSACTIONAL = 1 << 4
_FOLDER = re.compile(r"(.+)-(\d+)")
_TOPIC_ID = re.compile(r"^topic_id: *([A-Za-z0-9_-]{22})$", re.MULTILINE)


class Batch(NamedTuple):
    """One batch to be written: a records area, and of a transaction its producer (-1: none)."""

    producer_id: int
    producer_epoch: int
    record_count: int
    base_timestamp: int
    max_timestamp: int
    records: bytes


class Source:
    """The partitions of one or more directories, held against writers until `close`.

    `partitions` is how many the topic has; `cuts` what was left out as damaged. Of several copies
    of a partition (replicas) the one with the newest leader epoch and most offsets counts.
    """

    def __init__(self, found: dict[int, Found], partitions: int, cuts: list[Cut]) -> None:
        self.partitions = partitions
        self.cuts = cuts
        self._found = found
        self._locks = contextlib.ExitStack()

    @classmethod
    def hold(
        cls,
        paths: Sequence[Path],
        *,
        partitions: int | None = None,
        on_corruption: OnCorruption = "refuse",
    ) -> Self:
        """`partitions`: how many the topic has, where folders are missing because they held
        nothing. Raises LogError, LogLockedError while a process writes there, CorruptLogError."""
        with contextlib.ExitStack() as locks:
            copies: dict[int, list[Found]] = {}
            known: set[int] = set()
            for path in paths:
                _hold(path, locks)
                directories = partition_directories(path)
                if not directories:
                    raise LogError(
                        f"{path}: no {TOPIC}-N folder here; give the data directory of a server "
                        "(log.dirs of a Kafka broker)"
                    )
                for number, directory in directories.items():
                    copies.setdefault(number, []).append(recovery.examine(directory))
                if (properties := checkpoint.read_properties(path)) is not None:
                    known.add(properties.partitions)
            count = _count(paths, sorted(copies), known, partitions)
            found = {number: max(of, key=_newest) for number, of in sorted(copies.items())}
            cuts = [recovery.cut_in_memory(one, on_corruption) for one in found.values()]
            source = cls(found, count, [cut for cut in cuts if cut is not None])
            source._locks = locks.pop_all()
            return source

    @property
    def size_bytes(self) -> int:
        """Bytes of all sound batches."""
        return sum(one.sound_bytes for found in self._found.values() for one in found.segments)

    def read(self, partition: int) -> Iterator[bytes]:
        """Chunks of whole, checked, uncompressed batches, from the log's start."""
        if partition in self._found:
            segments = self._found[partition].segments
            yield from read_segments([(one.file, one.sound_bytes) for one in segments])

    def close(self) -> None:
        """Lets writers in again."""
        self._locks.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


class Target:
    """A new data directory: `append` to its partitions, `seal` it, and `publish` it under its name.

    All batches are of leader epoch 0, so that a broker whose topic is new accepts them.
    """

    def __init__(self, path: Path, partitions: int, topic_id: bytes, segment_bytes: int) -> None:
        """Raises ArgumentError if `path` is there and is not an empty directory."""
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise ArgumentError("DIRECTORY", f"{path} is not empty; name a new one")
        self.path = path
        self.partitions = partitions
        self.size_bytes = 0
        self._topic_id = topic_id
        self._segment_bytes = segment_bytes
        self._partial = path.absolute().with_name(f"{path.absolute().name}.partial")
        self._next_offsets = [0] * partitions
        self._active = [(0, 0)] * partitions  # base offset and size of the active segment
        make_directory(self._partial.parent)
        try:
            new_directory(self._partial)
        except FileExistsError:
            raise ArgumentError(
                "DIRECTORY",
                f"{self._partial} is there, of a run that was interrupted or goes on; if it does "
                "not, delete it",
            ) from None
        try:
            for number in range(partitions):
                new_directory(self._folder(number))
        except BaseException:
            self.discard()
            raise

    def append(self, partition: int, batches: Sequence[Batch]) -> None:
        """Writes the batches behind what the partition holds."""
        base_offset, size = self._active[partition]
        out = bytearray()
        for batch in batches:
            data = framed(batch, self._next_offsets[partition])
            if size and size + len(data) > self._segment_bytes:
                self._write(partition, base_offset, out)
                out.clear()
                base_offset, size = self._next_offsets[partition], 0
            out += data
            size += len(data)
            self._next_offsets[partition] += batch.record_count
        self._active[partition] = base_offset, size
        self._write(partition, base_offset, out)

    def adopt(self, partition: int, files: Sequence[Path], next_offset: int) -> None:
        """Takes over finished segments of a partition that holds nothing yet, by renaming them."""
        assert self._next_offsets[partition] == 0, partition
        for file in files:
            self.size_bytes += file.stat().st_size
            os.replace(file, self._folder(partition) / file.name)
        self._next_offsets[partition] = next_offset

    def seal(self, *, own: bool) -> None:
        """Ends the writing, durably. `own`: it is pykcoord's, and says so in a file."""
        for number in range(self.partitions):
            folder = self._folder(number)
            used = self._next_offsets[number] > 0
            checkpoint.write_epochs(folder, [(_LEADER_EPOCH, 0)] if used else [])
            checkpoint.write_partition_metadata(folder, self._topic_id)
            written_ns = 0
            for path in folder.glob("*.log"):
                sync_file(path)
                written_ns = max(written_ns, path.stat().st_mtime_ns)
            if own and used:
                begin_history(folder, written_ns // 1_000_000)
            sync_directory(folder)
        if own:
            properties = Properties(self.partitions, _LEADER_EPOCH, self._topic_id, is_whole=True)
            checkpoint.write_properties(self._partial, properties)
        sync_directory(self._partial)

    def publish(self) -> None:
        """Gives it its name: from now on it is there, whole."""
        os.replace(self._partial, self.path)
        sync_directory(self.path.absolute().parent)

    @property
    def partial(self) -> Path:
        """Where it is until `publish`."""
        return self._partial

    def discard(self) -> None:
        """Removes what was written, unless it is published."""
        shutil.rmtree(self._partial, ignore_errors=True)

    def _folder(self, number: int) -> Path:
        return self._partial / f"{TOPIC}-{number}"

    def _write(self, partition: int, base_offset: int, data: bytearray) -> None:
        if data:
            path = self._folder(partition) / segment_name(base_offset)
            with open(path, "ab", opener=private) as file:
                file.write(data)
            self.size_bytes += len(data)


def framed(batch: Batch, base_offset: int) -> bytes:
    """The whole batch, at its offset."""
    producer_id, producer_epoch, count, base_timestamp, max_timestamp, records = batch
    if producer_id < 0:
        return frame(records, count, base_offset, base_timestamp, max_timestamp, _LEADER_EPOCH)
    # base offset, length, leader epoch, magic, CRC, attributes, ...: log-format section 4.
    header = struct.pack(
        ">qiibIhiqqqhii", base_offset, 0, _LEADER_EPOCH, 2, 0, _TRANSACTIONAL, count - 1,
        base_timestamp, max_timestamp, producer_id, producer_epoch, 0, count,
    )  # fmt: skip
    return reframe(header, records)


class KafkaTopic(NamedTuple):
    """A topic as a broker's folders show it. `topic_id` is 16 bytes; None: no file says."""

    name: str
    topic_id: bytes | None
    partitions: int


def kafka_topics(paths: Sequence[Path]) -> list[KafkaTopic]:
    """The topics whose partitions have folders there, sorted by name; Kafka's own left out."""
    partitions: dict[str, int] = {}
    ids: dict[str, bytes] = {}
    for folder in (folder for path in paths for folder in path.iterdir() if folder.is_dir()):
        match = _FOLDER.fullmatch(folder.name)
        if match is None or match[1].startswith("__") or folder.name.endswith("-delete"):
            continue
        partitions[match[1]] = max(partitions.get(match[1], 0), int(match[2]) + 1)
        if (topic_id := _topic_id(folder)) is not None:
            ids[match[1]] = topic_id
    return [KafkaTopic(name, ids.get(name), count) for name, count in sorted(partitions.items())]


def offsets_topic(path: Path) -> KafkaTopic:
    """`__consumer_offsets` as the folders of a broker's log directory show it."""
    directories = partition_directories(path)
    ids = {found for folder in directories.values() if (found := _topic_id(folder)) is not None}
    if len(ids) != 1:
        raise LogError(
            f"{path}: no folder says which topic id {TOPIC} has; let the broker create the topic, "
            "and stop it, before this"
        )
    if len(directories) <= max(directories):
        raise LogError(
            f"{path}: has some of the partitions of {TOPIC} only; say with --topic-id ID "
            "--partitions N what `kafka-topics.sh --describe` shows of it"
        )
    return KafkaTopic(TOPIC, ids.pop(), len(directories))


def holds_records(path: Path) -> bool:
    """Whether any `__consumer_offsets` partition there has a batch."""
    folders = partition_directories(path).values()
    return any(log.stat().st_size for folder in folders for log in folder.glob("*.log"))


def _hold(path: Path, locks: contextlib.ExitStack) -> None:
    """Shares the lock that a broker or pykcoord takes for itself alone: none of them writes now."""
    lock = DirectoryLock.share(path)
    if lock is not None:
        locks.callback(lock.close)


def _count(paths: Sequence[Path], present: list[int], known: set[int], asked: int | None) -> int:
    where = ", ".join(map(str, paths))
    option = "--source-partitions"
    if asked is not None:
        known = known | {asked}
    if len(known) > 1:
        raise ArgumentError(option, f"{where}: made with {' and '.join(map(str, sorted(known)))}")
    count = known.pop() if known else present[-1] + 1
    if present[-1] >= count:
        raise ArgumentError(option, f"{where}: {TOPIC}-{present[-1]} is beyond {count} partitions")
    if asked is None and len(present) < count:
        missing = missing_of(count, present)
        raise LogError(
            f"{where}: {TOPIC}-{missing[0]} is missing ({len(missing)} of at least {count}); name "
            f"the directories of all brokers, or say with {option} N that the topic has N "
            "partitions and those held nothing"
        )
    return count


def _newest(found: Found) -> tuple[int, int]:
    return found.leader_epoch, found.next_offset


def _topic_id(folder: Path) -> bytes | None:
    try:
        match = _TOPIC_ID.search((folder / "partition.metadata").read_text("ascii"))
    except (FileNotFoundError, ValueError):
        return None
    return checkpoint.decoded_id(match[1]) if match else None
