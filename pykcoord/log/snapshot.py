"""The snapshot of a partition: `pykcoord.state` beside the segments, which Kafka does not look at.

It holds the state at one offset, as batches that only the native core reads, and by which files
that state came about. It spares a start the log below that offset, and nothing depends on it:
a reader that finds it damaged reads the log. Must never be written in place.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

from pykcoord.errors import LogError
from pykcoord.log import checkpoint, durable
from pykcoord.log._record_batch import crc32c, header
from pykcoord.log.segment import Plan

__all__ = [
    "SNAPSHOT_FILE",
    "Covered",
    "LastBatch",
    "SnapshotError",
    "check",
    "chunks",
    "read_covered",
    "write",
]

SNAPSHOT_FILE = "pykcoord.state"

_MAGIC = b"pykstate"
_VERSION = 2
_READ_VERSIONS = (1, 2)  # 1 has no producers
_HEAD = struct.Struct(">8sHI")  # magic, version, length of the JSON that follows
_CHUNK = struct.Struct(">II")  # length, CRC-32C of all of the file up to the chunk's end
_BATCH_HEADER_BYTES = 61


class SnapshotError(LogError):
    """A snapshot that is not used: unreadable, damaged, stale, or of something else. The log says
    it all."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}; it is not used, and the log is read instead")
        self.path = path
        self.reason = reason


class LastBatch(NamedTuple):
    """A batch by which a file is known again. Its leader epoch is not part of its CRC."""

    position: int
    base_offset: int
    leader_epoch: int
    crc: int


@dataclass(frozen=True)
class Covered:
    """What a snapshot is of: the state at `offset`, and the files that it was read from.

    `epochs` are (leader epoch, first offset); `closed` the segments that count whole: (base offset,
    size in bytes, mtime in ns); `active` the last one: (base offset, bytes of it); `last_batch` the
    last batch of these bytes, None if there are none.
    """

    partition: int
    topic_id: str
    offset: int
    epochs: list[tuple[int, int]]
    closed: list[tuple[int, int, int]]
    active: tuple[int, int]
    last_batch: LastBatch | None

    @property
    def log_bytes(self) -> int:
        """Bytes of the log that it stands for."""
        return sum(size for _, size, _ in self.closed) + self.active[1]


def write(directory: Path, covered: Covered, state: Iterable[bytes]) -> int:
    """Replaces the snapshot of a partition, durably, and says how many bytes it has.

    After a crash at any point the old one or the new one is there, whole. Raises OSError: the old
    one is there then.
    """
    with durable.replacing(directory / SNAPSHOT_FILE) as file:
        text = json.dumps(asdict(covered)).encode()
        head = _HEAD.pack(_MAGIC, _VERSION, len(text)) + text
        crc = crc32c(head)
        file.write(head + struct.pack(">I", crc))
        for chunk in state:
            crc = crc32c(chunk, crc32c(struct.pack(">I", len(chunk)), crc))
            file.write(_CHUNK.pack(len(chunk), crc))
            file.write(chunk)
        file.write(_CHUNK.pack(0, crc32c(struct.pack(">I", 0), crc)))
        size_bytes = file.tell()
    durable.sync_directory(directory)
    return size_bytes


def read_covered(directory: Path) -> Covered:
    """What the snapshot of a partition says that it is of. Raises FileNotFoundError, SnapshotError
    if it cannot be read, is damaged or of another version."""
    path = directory / SNAPSHOT_FILE
    with _opened(path) as file:
        return _head(path, file)[0]


def chunks(directory: Path) -> Iterator[bytes]:
    """The state, a chunk at a time, each checked before it is handed on. Raises FileNotFoundError,
    and SnapshotError at the first that is damaged: what came before is of no use then."""
    path = directory / SNAPSHOT_FILE
    with _opened(path) as file:
        crc = _head(path, file)[1]
        size = os.fstat(file.fileno()).st_size
        while True:
            framing = file.read(_CHUNK.size)
            if len(framing) < _CHUNK.size:
                raise SnapshotError(path, "it ends too early")
            length, expected = _CHUNK.unpack(framing)
            # A damaged length must not ask for more memory than there are bytes.
            chunk = file.read(min(length, size))
            crc = crc32c(chunk, crc32c(framing[:4], crc))
            if len(chunk) != length or crc != expected:
                raise SnapshotError(path, f"damaged before byte {file.tell()}")
            if length == 0:
                break
            yield chunk
        if file.read(1):
            raise SnapshotError(path, "there is something behind its end")


def check(directory: Path, covered: Covered, files: Plan, topic_id: str) -> None:
    """Compares the snapshot with the files that are there. Raises SnapshotError if it is stale.

    Segments below must be those that were read and checked then, by size and time; the last one may
    have grown. `topic_id` is that of the directory, in hex.
    """
    path = directory / SNAPSHOT_FILE
    if reason := _stale(directory, covered, files, topic_id):
        raise SnapshotError(path, reason)


def _stale(directory: Path, covered: Covered, files: Plan, topic_id: str) -> str | None:
    if covered.topic_id != topic_id or not directory.name.endswith(f"-{covered.partition}"):
        return "it belongs to another partition or another topic"
    if files.remove or files.rename:
        return "a compaction has not finished"
    count = len(covered.closed)
    there = [(file.base_offset, file.path) for file in files.segments[: count + 1]]
    expected = [base for base, _, _ in covered.closed] + [covered.active[0]]
    if [base for base, _ in there] != expected:
        return "the segments are others"
    for (base, path), (_, size, mtime_ns) in zip(there[:count], covered.closed, strict=True):
        status = path.stat()
        if (status.st_size, status.st_mtime_ns) != (size, mtime_ns):
            return f"segment {base} was changed since"
    path, position = there[count][1], covered.active[1]
    if path.stat().st_size < position:
        return f"the log ends below offset {covered.offset}"
    if covered.last_batch is not None and not _is_there(path, covered.last_batch):
        return f"the log below offset {covered.offset} is another"
    known = [epoch for epoch in checkpoint.read_epochs(directory) if epoch[1] < covered.offset]
    # The checkpoint is derived, and may lag behind the batches.
    if known != covered.epochs[: len(known)]:
        return "the leader epochs are others"
    return None


def _is_there(path: Path, last_batch: LastBatch) -> bool:
    with open(path, "rb") as file:
        file.seek(last_batch.position)
        data = file.read(_BATCH_HEADER_BYTES)
    if len(data) < _BATCH_HEADER_BYTES:
        return False
    found = header(data, 0)
    return last_batch[1:] == (found.base_offset, found.partition_leader_epoch, found.crc)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """A disk that does not give it back is no reason to refuse a start: the log is there."""
    try:
        with open(path, "rb") as file:
            yield file
    except FileNotFoundError:
        raise
    except OSError as error:
        raise SnapshotError(path, f"it cannot be read ({error.strerror})") from error


def _head(path: Path, file: BinaryIO) -> tuple[Covered, int]:
    head = file.read(_HEAD.size)
    if len(head) < _HEAD.size or not head.startswith(_MAGIC):
        raise SnapshotError(path, "not a snapshot of pykcoord")
    _, version, length = _HEAD.unpack(head)
    if version not in _READ_VERSIONS:
        raise SnapshotError(path, f"version {version}; only versions up to {_VERSION} are read")
    text = file.read(min(length, os.fstat(file.fileno()).st_size))
    crc = crc32c(head + text)
    if file.read(4) != struct.pack(">I", crc):
        raise SnapshotError(path, "its head is damaged")
    try:
        fields = json.loads(text)
        last_batch = fields.pop("last_batch")
        covered = Covered(
            epochs=[(epoch, start) for epoch, start in fields.pop("epochs")],
            closed=[(base, size, mtime) for base, size, mtime in fields.pop("closed")],
            active=tuple(fields.pop("active")),
            last_batch=None if last_batch is None else LastBatch(*last_batch),
            **fields,
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        raise SnapshotError(path, "its head makes no sense") from None
    return covered, crc
