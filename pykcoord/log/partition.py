"""One partition of `__consumer_offsets`, open for writing: append, roll, sync, read.

Used by one thread at a time (the writer's). Must never leave a batch in the middle of the file
that is not whole, and never write on after a failure: `failed` stays set until `reopen`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from pykcoord.errors import CorruptLogError, LogError, LogFencedError
from pykcoord.log import checkpoint, durable, recovery
from pykcoord.log._disk import Outcome, write_files
from pykcoord.log._record_batch import Stop, header
from pykcoord.log.closed_segments import ClosedSegments
from pykcoord.log.naming import naming
from pykcoord.log.presence import Presence
from pykcoord.log.protocol import Append, Cut, Failure, OnCorruption, record_batch
from pykcoord.log.recovery import Found
from pykcoord.log.segment import (
    SegmentFile,
    companions,
    pieces,
    plain,
    segment_name,
)

__all__ = ["Durable", "Partition", "read_segments"]

# Offsets in Kafka's indexes are 32 bits above the segment's base.
_MAX_RELATIVE_OFFSET = 2**31 - 1

_LOST = "restore the file from a copy, or start pykcoord again to go on with what is left"


class Durable(NamedTuple):
    """The segments of a partition with the bytes of each that count, the last one the active one,
    and (leader epoch, first offset) of what the log holds."""

    segments: list[tuple[SegmentFile, int]]
    epochs: list[tuple[int, int]]


class Partition:
    """A partition that this process writes, under `leader_epoch`.

    `segment_bytes` is offsets.topic.segment.bytes. `keep_unsynced` says what counts after a
    failure: whether what was written but not yet synced was already acknowledged. `closed` are the
    segments before the active one, the last; `rolled` is called when there is one more of them.
    `presence` is that of the directory above, which only tests do without.
    """

    def __init__(
        self,
        directory: Path,
        *,
        topic_id: bytes,
        segment_bytes: int,
        keep_unsynced: bool,
        on_corruption: OnCorruption,
        found: Found | None = None,
        presence: Presence | None = None,
    ) -> None:
        self.directory = directory
        self.leader_epoch = -1
        self.next_offset = 0
        self.failed: Failure | None = None
        self.cut: Cut | None = None
        self.closed = ClosedSegments()
        self.rolled: Callable[[], None] = lambda: None
        self._presence = presence
        self._topic_id = topic_id
        self._segment_bytes = segment_bytes
        self._keep_unsynced = keep_unsynced
        self._active: SegmentFile | None = None
        self._descriptor = -1
        self._size = 0
        self._synced = 0
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._waiting_offset = 0
        self._begun = False
        self.epochs_written = True
        self._load(found or recovery.examine(directory), on_corruption)

    @property
    def dirty(self) -> bool:
        """Whether something was written that is not synced yet."""
        return self._synced < self._size and self.failed is None

    @property
    def epochs(self) -> list[tuple[int, int]]:
        """(leader epoch, first offset), ascending, of what the log holds."""
        return self._epochs

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments, as far as they are written."""
        return self.closed.size_bytes + self._size

    def read(self) -> Iterator[bytes]:
        """Chunks of whole uncompressed batches from the log's start to what was written so far."""
        with self.closed.reading() as closed:
            active = [] if self._active is None else [(self._active, self._size)]
            yield from read_segments(closed + active)

    def durable(self) -> Durable | None:
        """What of the log nothing takes back any more, once it is synced; None after a failure and
        where there is no log. On the thread of the writer."""
        if self.failed is not None or self._active is None:
            return None
        active = (self._active, self._kept_bytes())
        return Durable([*self.closed.now().segments, active], self._epochs)

    def prepare(self, appends: Sequence[Append]) -> int:
        """Frames the batches, so that `request` holds them; says how many bytes they are.

        Writes only what goes into a segment that is full with it. Raises OSError or LogError; the
        caller then calls `fail`.
        """
        if not self._begun:
            self._begin_epoch()
        next_offset = self.next_offset
        size_bytes = 0
        for append in appends:
            assert append.base_offset == next_offset, (self.directory, next_offset, append)
            batch = record_batch(append, self.leader_epoch)
            batch_bytes = len(batch)
            if self._is_full(batch_bytes, next_offset + append.record_count - 1):
                self._roll(next_offset)
            self._waiting.append(batch)
            self._waiting_bytes += batch_bytes
            size_bytes += batch_bytes
            next_offset += append.record_count
            self._waiting_offset = next_offset
        return size_bytes

    def request(self) -> tuple[int, int, list[bytes]]:
        """What `write_files` shall write: descriptor, present size, batches."""
        return self._descriptor, self._size, self._waiting

    def finish(self, outcome: Outcome | None, synced: bool) -> None:
        """Takes note of what became of `request`. Raises OSError or LogError as `prepare` does."""
        if outcome is not None:
            if outcome.lock_error and self._presence is not None:
                raise self._presence.failure(outcome.lock_error)
            if outcome.write_error == errno.ESTALE and self._changed(outcome):
                raise self._fenced(outcome)
            self._check(outcome.write_error)
        self._size += self._waiting_bytes
        self._waiting, self._waiting_bytes = [], 0
        if synced:
            if outcome is not None:
                self._check(outcome.sync_error)
            self._synced = self._size
        self.next_offset = self._waiting_offset

    def sync(self) -> None:
        """Writes what waits and makes all of it durable. Raises as `prepare` does."""
        lock = None if self._presence is None else self._presence.name
        (outcome,) = write_files([self.request()], True, lock)
        self.finish(outcome, True)

    def roll(self) -> None:
        """Closes the active segment, if it holds anything. Raises OSError as `prepare` does."""
        if self._size > 0:
            self._roll(self.next_offset)

    def write_epochs(self) -> None:
        """Brings `leader-epoch-checkpoint` up to date. It is derived: the batches say the same.

        Not after a failure: no batch may be of this epoch, and the file may be another process's.
        Raises OSError, LogError.
        """
        if not self.epochs_written and self.failed is None:
            self.check_presence()
            checkpoint.write_epochs(self.directory, self._epochs)
            self.epochs_written = True

    def check_presence(self) -> None:
        """Before any name in the directory is made, changed or removed. Raises OSError or LogError:
        what stands under that name may be another process's."""
        if self._presence is not None:
            self._presence.check()

    def fail(self, error: Failure) -> None:
        """Refuses appends from now on, and takes back what was not acknowledged."""
        self.failed = error
        self._waiting, self._waiting_bytes = [], 0
        # A LogError says that another process writes here: the bytes there are its own.
        if self._descriptor >= 0 and isinstance(error, OSError):
            # If this fails too, `reopen` cuts before it believes anything.
            try:
                os.ftruncate(self._descriptor, self._kept_bytes())
            except OSError as second:
                error.add_note(f"cutting the file back failed too: {second}")

    def reopen(self) -> None:
        """Recovers from the disk after a failure. Raises OSError or LogError: it stays failed.

        After a failed fsync Linux may count pages as clean that are not on disk, so reading them
        back proves nothing: what was not acknowledged is cut, what was is written once more.
        """
        if self._descriptor >= 0:
            if isinstance(self.failed, OSError):
                with naming(self._active_file.path):
                    self._take_back()
            os.close(self._descriptor)
            self._descriptor = -1
        self.check_presence()
        with self.closed.recovering():
            found = recovery.examine(self.directory)
            if found.leader_epoch > self.leader_epoch:
                raise LogFencedError(self.directory, self.leader_epoch, found.leader_epoch)
            if found.next_offset < self.next_offset:
                path = found.segments[-1].file.path if found.segments else self.directory
                size = found.segments[-1].sound_bytes if found.segments else 0
                reason = f"the log ends here, but was acknowledged up to offset {self.next_offset}"
                raise CorruptLogError(path, size, found.next_offset, reason, _LOST)
            self._load(found, "refuse")
        self.failed = None

    def close(self) -> None:
        """Syncs and closes. Raises OSError if the disk does not take it, LogError as `prepare`."""
        if self._descriptor >= 0:
            try:
                if self.dirty:
                    self.sync()
                self.write_epochs()
            finally:
                os.close(self._descriptor)
                self._descriptor = -1

    def _load(self, found: Found, on_corruption: OnCorruption) -> None:
        """Puts the files right and takes them over. Raises OSError: nothing is taken over then."""
        cut = recovery.repair(found, on_corruption)
        renamed = dict(found.plan.rename)
        files = [
            scanned.file._replace(path=renamed.get(scanned.file.path, scanned.file.path))
            for scanned in found.segments
        ]
        sizes = [scanned.sound_bytes for scanned in found.segments]
        if files:
            self._descriptor = _open_synced(files[-1].path)
        self._active = files[-1] if files else None
        end_offset = files[-1].base_offset if files else found.next_offset
        self.closed.reset(list(zip(files[:-1], sizes[:-1], strict=True)), end_offset)
        self.cut = cut
        self.next_offset = self._waiting_offset = found.next_offset
        self._epochs = found.epochs
        self._size = self._synced = sizes[-1] if sizes else 0
        self._begun = False
        self.epochs_written = True

    def _begin_epoch(self) -> None:
        """Before the first append of this process: fencing, the epoch, a segment, no indexes."""
        self.check_presence()
        newest = self._epochs[-1][0] if self._epochs else -1
        if newest > self.leader_epoch:
            raise LogFencedError(self.directory, self.leader_epoch, newest)
        if self._descriptor < 0:
            if not (self.directory / "partition.metadata").exists():
                checkpoint.write_partition_metadata(self.directory, self._topic_id)
            self._create(self.next_offset)
        else:
            for index in companions(self._active_file.path):
                index.unlink()
        if newest < self.leader_epoch:
            self._epochs = [*self._epochs, (self.leader_epoch, self.next_offset)]
            self.epochs_written = False
        self._begun = True

    def _is_full(self, more_bytes: int, last_offset: int) -> bool:
        # Kafka also rolls by age (segment.ms), for the sake of retention and of its cleaner.
        size = self._size + self._waiting_bytes
        too_large = size > 0 and size + more_bytes > self._segment_bytes
        return too_large or last_offset - self._active_file.base_offset > _MAX_RELATIVE_OFFSET

    def _roll(self, base_offset: int) -> None:
        """A new active segment. The old one is synced first: only the last can ever be torn."""
        self.sync()
        os.close(self._descriptor)
        self._descriptor = -1
        full = (self._active_file, self._size)
        self._create(base_offset)
        self.closed.append(*full, base_offset)
        self.rolled()

    def _create(self, base_offset: int) -> None:
        self.check_presence()
        path = self.directory / segment_name(base_offset)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._descriptor = os.open(path, flags, durable.FILE_MODE)
        self._active = SegmentFile(base_offset, path)
        self._size = self._synced = 0
        durable.sync_directory(self.directory)

    @property
    def _active_file(self) -> SegmentFile:
        assert self._active is not None, self.directory
        return self._active

    def _kept_bytes(self) -> int:
        return self._size if self._keep_unsynced else self._synced

    def _take_back(self) -> None:
        kept = self._kept_bytes()
        os.ftruncate(self._descriptor, kept)
        position = self._synced
        while position < kept:
            chunk = os.pread(self._descriptor, min(1 << 20, kept - position), position)
            if not chunk:
                break
            position += os.pwrite(self._descriptor, chunk, position)
        os.fsync(self._descriptor)

    def _check(self, error: int) -> None:
        if error:
            raise OSError(error, os.strerror(error), str(self._active_file.path))

    def _changed(self, outcome: Outcome) -> bool:
        return outcome.found_size != self._size or outcome.links == 0

    def _fenced(self, outcome: Outcome) -> LogError:
        """Another process changed the file: names it, as far as the batches there show."""
        if outcome.links > 0 and outcome.found_size > self._size:
            there = os.pread(self._descriptor, 61, self._size)
            if len(there) == 61 and header(there, 0).partition_leader_epoch > self.leader_epoch:
                newer = header(there, 0).partition_leader_epoch
                return LogFencedError(self.directory, self.leader_epoch, newer)
        state = f"it has {outcome.found_size} bytes" if outcome.links else "it was deleted"
        return CorruptLogError(
            self._active_file.path,
            self._size,
            self.next_offset,
            f"changed by another process: {state}",
            "stop what writes here; pykcoord recovers the log when it is started again",
        )


def read_segments(segments: list[tuple[SegmentFile, int]]) -> Iterator[bytes]:
    """Chunks of whole uncompressed batches of segments, each sound up to so many bytes."""
    next_offset = 0
    for file, sound_bytes in segments:
        position, stop = 0, Stop.END
        for piece in pieces(file, max(next_offset, file.base_offset), sound_bytes):
            yield from plain(file, piece)
            position, stop = piece.position + piece.scan.end, piece.scan.stop
            next_offset = piece.scan.next_offset
        if position != sound_bytes:
            reason = f"was sound when it was opened, and is not any more ({stop.name.lower()})"
            raise CorruptLogError(file.path, position, next_offset, reason, recovery.ADVICE)


def _open_synced(path: Path) -> int:
    """What was read back counts as committed from now on, but the process that wrote it may have
    died before its syncs, of the file and of its name."""
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        size = os.fstat(descriptor).st_size
        (outcome,) = write_files([(descriptor, size, [])], True)
        if outcome is not None:
            error = outcome.write_error or outcome.sync_error
            raise OSError(error, os.strerror(error), str(path))
        durable.sync_directory(path.parent)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
