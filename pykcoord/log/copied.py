"""One partition of another server's log, copied batch by batch as it is, for `pykcoord watch`.

Nothing of a batch changes: offsets, epochs, producers and compression stay. Must never write a
batch that is not whole, sound and in its place, and never drop what it had: what the other server
took back is cut here, and kept beside the segment as `.cut-N`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from pykcoord.errors import LogError
from pykcoord.log import checkpoint, durable, recovery
from pykcoord.log._disk import sync_files
from pykcoord.log._record_batch import Stop, header, scan
from pykcoord.log.naming import naming
from pykcoord.log.partition import read_segments
from pykcoord.log.protocol import Cut
from pykcoord.log.segment import Piece, Replay, SegmentFile, companions, pieces, plain, segment_name

__all__ = ["Copied", "CopiedPartition", "SyncJob", "UnfitBatchError", "checked", "sync_all"]

# Offsets in Kafka's indexes are 32 bits above the segment's base.
_MOST_OFFSETS = 2**31 - 1
_HEADER_BYTES = 61


class UnfitBatchError(LogError):
    """Bytes that another server sent as batches, and that are none, or not the next ones. `offset`
    is where they should go on."""

    def __init__(self, name: str, offset: int, reason: str) -> None:
        super().__init__(f"{name}: at offset {offset}: {reason}")
        self.offset = offset
        self.reason = reason


class Copied:
    """Sound batches that follow what was there: `data` as they came, `next_offset` behind them,
    `epochs` those that begin in them with their first offsets, `max_timestamp` in ms (-1: none)."""

    def __init__(self, piece: Piece, source: SegmentFile) -> None:
        self.data = piece.view
        self.next_offset = piece.scan.next_offset
        self.records = piece.scan.records
        self.epochs = piece.scan.epochs
        self.max_timestamp = piece.scan.max_timestamp
        self._piece = piece
        self._source = source

    def gap_above(self, offset: int) -> int | None:
        """The base offset of a batch that ends above `offset`, and does not follow what is before
        it; None if there is none."""
        if self.next_offset <= offset:
            return None
        position, expected = 0, self._source.base_offset
        while position < len(self.data):
            batch = header(self.data, position)
            end = batch.base_offset + batch.last_offset_delta + 1
            if end > offset and batch.base_offset > expected:
                return batch.base_offset
            position, expected = position + batch.size, end
        return None

    def chunks(self) -> Iterator[bytes]:
        """The batches uncompressed, for replay. Raises CorruptLogError if one cannot be
        expanded."""
        return plain(self._source, self._piece)


def checked(name: Path, data: bytes, next_offset: int, leader_epoch: int) -> Copied | None:
    """The whole batches of `data` from `next_offset` on; None where there is no data. What is
    before that offset, and a batch that is cut off at the end, are left out.

    Raises UnfitBatchError for all that is no sound batch, or not the next one, and where none is
    whole: a server sends the first one whole, however large it is.
    """
    if not data:
        return None
    rest = _from(data, next_offset)
    found = scan(rest, 0, next_offset, 0, leader_epoch)
    if found.stop not in (Stop.END, Stop.SHORT) or not found.end:
        broken = rest[found.end :]
        reason = recovery.reason_of(found.stop, broken, found.next_offset, 0)
        raise UnfitBatchError(name.name, found.next_offset, reason)
    return Copied(Piece(0, memoryview(rest)[: found.end], found), SegmentFile(next_offset, name))


def _from(data: bytes, offset: int) -> bytes:
    """Without the whole batches before `offset`. Nothing was checked yet."""
    position = 0
    while position + _HEADER_BYTES <= len(data):
        batch = header(data, position)
        end = batch.base_offset + batch.last_offset_delta
        if end >= offset or not _HEADER_BYTES <= batch.size <= len(data) - position:
            break
        position += batch.size
    return data[position:] if position else data


class SyncJob(NamedTuple):
    """A file to be synced, by a `descriptor` of the job's own; `epochs` are to be written down
    beside it then."""

    path: Path
    descriptor: int
    epochs: list[tuple[int, int]] | None

    def __call__(self) -> None:
        """Does it. Raises OSError."""
        (error,) = sync_all([self])
        if error is not None:
            raise error


def sync_all(jobs: Sequence[SyncJob]) -> list[OSError | None]:
    """Does all of them, at the same time; returns what each failed with."""
    found: list[OSError | None] = []
    try:
        codes = sync_files([job.descriptor for job in jobs])
    finally:
        for job in jobs:
            os.close(job.descriptor)
    for job, code in zip(jobs, codes, strict=True):
        error = OSError(code, os.strerror(code), str(job.path)) if code else None
        if error is None and job.epochs is not None:
            try:
                checkpoint.write_epochs(job.path.parent, job.epochs)
            except OSError as failed:
                error = failed
        found.append(error)
    return found


class CopiedPartition:
    """A partition's folder, open for appending. Made by `open`.

    `next_offset` and `last_epoch` are where to go on; `cut` what was damaged at the end, and is
    fetched again. Nothing is synced but by `sync`, full segments and `close`: what a power cut
    takes is fetched again, too.
    """

    def __init__(self, directory: Path, segment_bytes: int) -> None:
        self.directory = directory
        self.next_offset = 0
        self.cut: Cut | None = None
        self._segment_bytes = segment_bytes
        self._segments: list[SegmentFile] = []
        self._epochs: list[tuple[int, int]] = []
        self._written: list[tuple[int, int]] = []
        self._descriptor = -1
        self._size = 0
        self._dirty = False

    @classmethod
    def open(
        cls, directory: Path, topic_id: bytes, segment_bytes: int, replay: Replay
    ) -> CopiedPartition:
        """Reads the folder, which is made if it is missing, and hands what is sound to `replay`.
        Damage, and what is behind it, is put aside as `.corrupt-N`. Raises LogError, OSError."""
        partition = cls(directory, segment_bytes)
        if not directory.is_dir():
            durable.new_directory(directory)
            checkpoint.write_partition_metadata(directory, topic_id)
        found = recovery.examine(directory, replay)
        partition.cut = recovery.repair(found, "truncate")
        renamed = dict(found.plan.rename)
        partition._segments = [
            one.file._replace(path=renamed.get(one.file.path, one.file.path))
            for one in found.segments
        ]
        partition.next_offset = found.next_offset
        partition._epochs = found.epochs
        partition._written = checkpoint.read_epochs(directory)
        if partition._segments:
            partition._open_last()
        return partition

    @property
    def epochs(self) -> list[tuple[int, int]]:
        """(leader epoch, first offset), ascending, of what is there."""
        return self._epochs

    @property
    def last_epoch(self) -> int:
        """The leader epoch of the last batch; -1 if there is none."""
        return self._epochs[-1][0] if self._epochs else -1

    def append(self, copied: Copied) -> None:
        """Writes batches that `checked` gave. Raises OSError; what was written half is cut off."""
        self.write(copied.data, copied.next_offset, copied.epochs)

    def write(
        self, data: memoryview | bytes, next_offset: int, epochs: list[tuple[int, int]]
    ) -> None:
        """Writes batches that follow and end at `next_offset`, in which `epochs` begin. Raises as
        `append` does."""
        base = self._segments[-1].base_offset if self._segments else self.next_offset
        is_full = self._size + len(data) > self._segment_bytes and self._size > 0
        if self._descriptor < 0 or is_full or next_offset - base > _MOST_OFFSETS:
            self._roll()
        try:
            _write(self._descriptor, data, self._size)
        except OSError as error:
            with naming(self._segments[-1].path):
                os.ftruncate(self._descriptor, self._size)
                raise error
        self._size += len(data)
        self._dirty = True
        self.next_offset = next_offset
        last = self.last_epoch
        self._epochs += [(epoch, start) for epoch, start in epochs if epoch > last]

    def truncate(self, offset: int) -> list[Path]:
        """Takes away all batches that end at or above `offset`; returns the files in which they
        are kept. Raises OSError."""
        self._close_file()
        kept: list[Path] = []
        while self._segments and self._segments[-1].base_offset >= offset:
            file = self._segments.pop()
            for index in companions(file.path):
                index.unlink()
            kept.append(_aside(file.path))
            os.replace(file.path, kept[-1])
        self.next_offset = self._segments[-1].base_offset if self._segments else 0
        if self._segments:
            self._open_last()
            position, self.next_offset = _end_before(self._segments[-1], offset)
            if position < self._size:
                kept.append(_aside(self._segments[-1].path))
                _copy_tail(self._segments[-1].path, position, kept[-1])
                os.ftruncate(self._descriptor, position)
                self._size, self._dirty = position, True
        self._epochs = [one for one in self._epochs if one[1] < self.next_offset]
        durable.sync_directory(self.directory)
        self.sync()
        return kept

    def read(self) -> Iterator[bytes]:
        """Chunks of whole uncompressed batches, from the start to what was appended last."""
        sizes = [file.path.stat().st_size for file in self._segments]
        return read_segments(list(zip(self._segments, sizes, strict=True)))

    @property
    def is_dirty(self) -> bool:
        """Whether something was appended that no sync has taken yet."""
        return self._dirty

    @property
    def size_bytes(self) -> int:
        """Of all segments."""
        return sum(file.path.stat().st_size for file in self._segments)

    def sync(self) -> None:
        """Makes what was appended durable. Raises OSError."""
        if (job := self.sync_job()) is not None:
            job()

    def sync_job(self) -> SyncJob | None:
        """What makes durable what was appended so far, to be called once, on any thread; None where
        nothing was. Appending may go on meanwhile."""
        if not self._dirty:
            return None
        path, descriptor = self._segments[-1].path, os.dup(self._descriptor)
        self._dirty = False
        if self._epochs == self._written:
            return SyncJob(path, descriptor, None)
        self._written = list(self._epochs)
        return SyncJob(path, descriptor, self._written)

    def close(self) -> None:
        """Syncs, and closes the file."""
        try:
            self.sync()
        finally:
            self._close_file()

    def _roll(self) -> None:
        if self._descriptor >= 0:
            self.sync()
            self._close_file()
        path = self.directory / segment_name(self.next_offset)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._descriptor = os.open(path, flags, durable.FILE_MODE)
        self._size = 0
        self._segments.append(SegmentFile(self.next_offset, path))
        durable.sync_directory(self.directory)

    def _open_last(self) -> None:
        path = self._segments[-1].path
        self._descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self._size = os.fstat(self._descriptor).st_size

    def _close_file(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _write(descriptor: int, data: memoryview | bytes, position: int) -> None:
    written = os.pwrite(descriptor, data, position)
    while written < len(data):
        written += os.pwrite(descriptor, memoryview(data)[written:], position + written)


def _end_before(file: SegmentFile, offset: int) -> tuple[int, int]:
    """The byte of the segment, and the offset, where its first batch begins that ends at or above
    `offset`."""
    position, next_offset = 0, file.base_offset
    for piece in pieces(file, file.base_offset):
        if piece.scan.next_offset <= offset:
            position, next_offset = piece.position + piece.scan.end, piece.scan.next_offset
            continue
        at = 0
        while at < len(piece.view):
            batch = header(piece.view, at)
            end = batch.base_offset + batch.last_offset_delta + 1
            if end > offset:
                break
            at, next_offset = at + batch.size, end
        return piece.position + at, next_offset
    return position, next_offset


def _copy_tail(path: Path, position: int, aside: Path) -> None:
    with open(path, "rb") as source, open(aside, "xb", opener=durable.private) as target:
        source.seek(position)
        while chunk := source.read(1 << 20):
            target.write(chunk)
        target.flush()
        os.fsync(target.fileno())


def _aside(path: Path) -> Path:
    number = 1
    while (aside := path.with_name(f"{path.name}.cut-{number}")).exists():
        number += 1
    return aside
