"""Writes snapshots in the background, one partition at a time, so that a start is spared most of
the log.

The state is built a second time, beside the one that serves, from the snapshot before and from the
files: nothing that serves waits for it. A snapshot that cannot be written is given up, logged, and
tried again. Must never read more of a log than is durable, nor hurry.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pykcoord.errors import CoordinatorClosedError, CorruptLogError, LogError
from pykcoord.log import snapshot
from pykcoord.log._record_batch import Stop, header
from pykcoord.log.durable import sync_file
from pykcoord.log.partition import Durable, Partition
from pykcoord.log.protocol import Loader
from pykcoord.log.recovery import ADVICE
from pykcoord.log.segment import SegmentFile, pieces, plain, plan
from pykcoord.log.snapshot import Covered, LastBatch, SnapshotError
from pykcoord.log.writer import Writer

__all__ = ["Snapshots", "Snapshotter"]

_logger = logging.getLogger(__name__)

# After half a MB, which takes a core one to two milliseconds: a quarter of a core at most.
_PAUSE_SECONDS = 0.005
# Below what serves, where the system lets threads differ in that.
_NICENESS = 10


@dataclass(frozen=True)
class Snapshots:
    """When snapshots are written. `new_loader` makes an empty state, `interval_ms` is how often it
    is looked whether a log has grown; it is written down again when the part that no snapshot
    covers is larger than `min_bytes` and than half of the snapshot."""

    new_loader: Callable[[], Loader]
    interval_ms: int
    min_bytes: int


class _Stopped(Exception):
    """The log is being closed."""


class Snapshotter:
    """A thread that keeps the snapshots of `partitions` young. `covered` are those in use, by
    partition: what they cover was not read at the start, and is checked first."""

    def __init__(
        self,
        partitions: Mapping[int, Partition],
        writer: Writer,
        topic_id: bytes,
        snapshots: Snapshots,
        covered: dict[int, Covered],
    ) -> None:
        self._partitions = partitions
        self._writer = writer
        self._topic_id = topic_id.hex()
        self._snapshots = snapshots
        self._covered = dict(covered)
        self._unread = dict(covered)
        self._sizes: dict[int, int] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pykcoord-snapshot", daemon=True)

    def start(self) -> None:
        """Begins, after the first interval."""
        self._thread.start()

    def close(self) -> None:
        """Ends; a snapshot that is being written is given up."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def write_due(self) -> list[int]:
        """Writes all snapshots that are due, and says which. Raises OSError, LogError."""
        return [number for number in self._partitions if self._write_if_due(number)]

    def _run(self) -> None:
        if sys.platform == "linux":
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
        while not self._stopping.wait(self._snapshots.interval_ms / 1000):
            for number, partition in self._partitions.items():
                try:
                    if number in self._unread:
                        self._check_unread(partition, self._unread.pop(number))
                    self._write_if_due(number)
                except (_Stopped, CoordinatorClosedError):
                    return
                except (OSError, LogError) as error:
                    _logger.warning(
                        "no snapshot of %s, to be tried again: %s",
                        partition.directory,
                        error,
                        extra={"event": "snapshot_failed", "shard": number},
                    )
                except Exception:
                    # Our own fault costs the snapshot of one partition, never the log.
                    _logger.exception("writing the snapshot of %s", partition.directory)

    def _write_if_due(self, number: int) -> bool:
        partition = self._partitions[number]
        with partition.closed.reading():  # no file is compacted away meanwhile
            durable = self._durable(partition)
            if durable is None or not self._is_due(number, durable):
                return False
            before = self._identities(durable)
            loader, covered = self._build(number, durable, before)
            if self._identities(durable) != before:
                return False  # changed by another process
        partition.check_presence()
        size = snapshot.write(partition.directory, covered, self._state(loader))
        self._covered[number], self._sizes[number] = covered, size
        _logger.info(
            "snapshot of %s at offset %d: %d bytes for %d bytes of log",
            partition.directory,
            covered.offset,
            size,
            covered.log_bytes,
            extra={"event": "snapshot", "shard": number, "offset": covered.offset},
        )
        return True

    def _durable(self, partition: Partition) -> Durable | None:
        found: list[Durable | None] = []
        self._writer.call(lambda: found.append(partition.durable()))
        return found[0]

    def _is_due(self, number: int, durable: Durable) -> bool:
        covered = self._covered.get(number)
        if number not in self._sizes:
            path = self._partitions[number].directory / snapshot.SNAPSHOT_FILE
            self._sizes[number] = path.stat().st_size if path.exists() else 0
        bases = [file.base_offset for file, _ in durable.segments]
        size_bytes = sum(size for _, size in durable.segments)
        if covered is not None:
            count = len(covered.closed)
            before = [(base, size) for base, size, _ in covered.closed]
            now = [(file.base_offset, size) for file, size in durable.segments[:count]]
            if now == before and covered.active[0] in bases:
                size_bytes -= covered.log_bytes
        return size_bytes >= max(self._snapshots.min_bytes, self._sizes[number] // 2)

    def _identities(self, durable: Durable) -> list[tuple[int, int, int]]:
        """Base offset, size and time of the closed segments, durably."""
        return [_identity(file) for file, _ in durable.segments[:-1]]

    def _build(
        self, number: int, durable: Durable, closed: list[tuple[int, int, int]]
    ) -> tuple[Loader, Covered]:
        partition = self._partitions[number]
        loader, known = self._restored(partition.directory)
        first = 0 if known is None else len(known.closed)
        offset, position = (0, 0) if known is None else (known.offset, known.active[1])
        last_batch = None if known is None else known.last_batch
        for file, size in durable.segments[first:]:
            expected = max(offset, file.base_offset)
            offset, last_batch = self._replay(loader, file, position, size, expected, last_batch)
            position = 0
        file, size = durable.segments[-1]
        sync_file(file.path)  # what a snapshot says is on disk, has to be
        covered = Covered(
            partition=number,
            topic_id=self._topic_id,
            offset=offset,
            epochs=[epoch for epoch in durable.epochs if epoch[1] < offset],
            closed=closed,
            active=(file.base_offset, size),
            last_batch=last_batch if size else None,
        )
        return loader, covered

    def _restored(self, directory: Path) -> tuple[Loader, Covered | None]:
        """The state of the snapshot before, if it is still good; else an empty one."""
        loader = self._snapshots.new_loader()
        try:
            covered = snapshot.read_covered(directory)
            snapshot.check(directory, covered, plan(directory), self._topic_id)
            for chunk in snapshot.chunks(directory):
                loader.restore(chunk)
                self._pause()
        except (FileNotFoundError, SnapshotError, ValueError):
            return self._snapshots.new_loader(), None
        return loader, covered

    def _replay(
        self,
        loader: Loader,
        file: SegmentFile,
        position: int,
        size: int,
        expected_offset: int,
        last_batch: LastBatch | None,
    ) -> tuple[int, LastBatch | None]:
        """The offset behind `size` bytes of a segment, and the last batch of them."""
        begin, stop = position, Stop.END
        for piece in pieces(file, expected_offset, size, start=position):
            for chunk in plain(file, piece):
                loader.replay(chunk)
            if piece.scan.end:
                begin = piece.position
            position, stop = piece.position + piece.scan.end, piece.scan.stop
            expected_offset = piece.scan.next_offset
            self._pause()
        if position != size:
            reason = f"was sound before, and is not any more ({stop.name.lower()})"
            raise CorruptLogError(file.path, position, expected_offset, reason, ADVICE)
        if begin < size:
            last_batch = _last_batch(file.path, begin, size)
        return expected_offset, last_batch

    def _state(self, loader: Loader) -> Iterator[bytes]:
        while (chunk := loader.snapshot_chunk()) is not None:
            yield chunk
            self._pause()

    def _check_unread(self, partition: Partition, covered: Covered) -> None:
        """Checks every CRC of what the start did not read, now that there is time."""
        for file in plan(partition.directory).segments:
            if file.base_offset > covered.active[0]:
                break
            limit = covered.active[1] if file.base_offset == covered.active[0] else None
            try:
                self._check_segment(file, limit)
            except FileNotFoundError:
                continue  # compacted, which reads all of it
            except (OSError, CorruptLogError) as error:
                _logger.error("%s", error, extra={"event": "damage"})

    def _check_segment(self, file: SegmentFile, limit: int | None) -> None:
        size = file.path.stat().st_size if limit is None else limit
        position, offset, stop = 0, file.base_offset, Stop.END
        for piece in pieces(file, offset, limit):
            position, stop = piece.position + piece.scan.end, piece.scan.stop
            offset = piece.scan.next_offset
            self._pause()
        if position != size:
            reason = (
                f"damaged ({stop.name.lower()}), but a snapshot has its state: what is served is "
                "right, and stays so until the snapshot is lost"
            )
            advice = "write the state anew while it is there, or restore the file from a copy"
            raise CorruptLogError(file.path, position, offset, reason, advice)

    def _pause(self) -> None:
        if self._stopping.wait(_PAUSE_SECONDS):
            raise _Stopped


def _identity(file: SegmentFile) -> tuple[int, int, int]:
    sync_file(file.path)
    status = file.path.stat()
    return file.base_offset, status.st_size, status.st_mtime_ns


def _last_batch(path: Path, begin: int, end: int) -> LastBatch:
    """The last batch of a sound part of a file."""
    with open(path, "rb") as file:
        file.seek(begin)
        data = file.read(end - begin)
    at = 0
    batch = header(data, at)
    while at + batch.size < len(data):
        at += batch.size
        batch = header(data, at)
    return LastBatch(begin + at, batch.base_offset, batch.partition_leader_epoch, batch.crc)
