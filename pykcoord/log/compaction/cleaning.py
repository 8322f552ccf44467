"""One cleaning of one partition: three passes over its closed segments, and the exchange of those
that were cleaned, group by group (Kafka's Cleaner).

Reads files that nothing else changes. A group is exchanged before the next is written, so that the
disk never holds more than one cleaned segment beside the log.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

from pykcoord.errors import CorruptLogError, LogError
from pykcoord.log import recovery
from pykcoord.log._record_batch import Stop, header, next_compressed
from pykcoord.log.closed_segments import Closed, ClosedSegments
from pykcoord.log.compaction.files import Files
from pykcoord.log.compaction.settings import RecordCleaner
from pykcoord.log.compaction.swap import Swap, cleaned_path
from pykcoord.log.segment import Piece, SegmentFile, expanded, pieces, plain

__all__ = ["Cleaned", "Cleaning", "Facts", "Shared"]

T = TypeVar("T")

# Kafka's offsets in a segment are 32 bits above its base.
_MAX_RELATIVE_OFFSET = 2**31 - 1
# A sync of much at once would keep those of the writer waiting.
_SYNC_BYTES = 4 << 20


class Facts(NamedTuple):
    """What one pass over a closed segment finds, once for all."""

    next_offset: int
    max_timestamp: int
    has_producers: bool


class Cleaned(NamedTuple):
    """What came of a cleaning: the log is clean below `end_offset`.

    `bytes_before` and `bytes_after` are the sizes of all segments that were looked at,
    `records_before` and `records_after` what they held; `bytes_read` counts all passes.
    """

    end_offset: int
    bytes_before: int
    bytes_after: int
    bytes_read: int
    records_before: int
    records_after: int


class Shared(NamedTuple):
    """What the cleanings of a directory share. `spend(bytes)` throttles, and raises to give up; it
    is called for each `piece_bytes` that were read. `keep(segments)` is called before segments are
    replaced."""

    files: Files
    segment_bytes: int
    min_compaction_lag_ms: int
    now_ms: int
    spend: Callable[[int], None]
    piece_bytes: int
    keep: Callable[[list[SegmentFile]], None]


class _Group(NamedTuple):
    segments: list[tuple[SegmentFile, int]]
    # Where the last batch in them ends.
    end_offset: int


class Cleaning:
    """A cleaning of the partition in `directory`, from `first_dirty_offset` on: of the segments
    `now`, a moment of `closed`. `facts` remembers what was found out about segments before.
    """

    def __init__(
        self,
        directory: Path,
        closed: ClosedSegments,
        now: Closed,
        first_dirty_offset: int,
        facts: dict[SegmentFile, Facts],
        shared: Shared,
    ) -> None:
        self._directory = directory
        self._closed = closed
        self._now = now
        self._first_dirty_offset = first_dirty_offset
        self._facts = facts
        self._shared = shared
        self._segments = now.segments
        self._bytes_read = 0
        self.unfinished: Callable[[], None] | None = None

    def run(self, cleaner: RecordCleaner) -> Cleaned | None:
        """Cleans; None if there is nothing that may be cleaned yet.

        Raises OSError (`unfinished`, if there is one, ends an exchange that has begun: call it
        before another cleaning), LogError, Reopened, and what `spend` raises.
        The log is whole always.
        """
        self._sweep()
        self._observe(cleaner)
        bound = self._bound(cleaner)
        if bound <= self._first_dirty_offset:
            return None
        self._index(cleaner, bound)
        end_offset = cleaner.end_offset
        if end_offset <= self._first_dirty_offset:
            raise LogError(
                f"{self._directory}: the keys of the batch at offset {end_offset} alone need more "
                "memory than log.cleaner.dedupe.buffer.size; raise it"
            )
        touched = [one for one in self._segments if one[0].base_offset < end_offset]
        bytes_after = sum(self._clean(cleaner, group) for group in self._groups(touched))
        before, after = cleaner.records
        bytes_before = sum(size for _, size in touched)
        return Cleaned(end_offset, bytes_before, bytes_after, self._bytes_read, before, after)

    def _sweep(self) -> None:
        """What failed attempts left. Recovery would take a `.cleaned` for a sign that a `.swap`
        behind it was not complete."""
        paths = sorted(self._directory.iterdir())
        for path in paths:
            if path.suffix in (".swap", ".deleted"):
                # Of an exchange that has begun: it may be all that is left of its segments.
                raise LogError(
                    f"{path}: the exchange of a compacted segment has begun and was not finished; "
                    "open the log again, which finishes it"
                )
        for path in paths:
            if path.suffix == ".cleaned":
                self._shared.files.unlink(path)

    def _observe(self, cleaner: RecordCleaner) -> None:
        """Transactions first: whether a batch counts is known only from the marker behind it."""
        for file, size in self._segments:
            known = self._facts.get(file)
            if known is not None and not known.has_producers:
                continue
            next_offset, max_timestamp = file.base_offset, -1
            has_producers = False
            for piece in self._pieces(file, size):
                next_offset = piece.scan.next_offset
                max_timestamp = max(max_timestamp, piece.scan.max_timestamp)
                if piece.scan.of_producers:
                    has_producers = True
                    for chunk in plain(file, piece):
                        _read(file, piece, cleaner.observe, chunk)
            self._facts[file] = Facts(next_offset, max_timestamp, has_producers)

    def _bound(self, cleaner: RecordCleaner) -> int:
        """The first offset that must not be cleaned (LogCleanerManager.cleanableOffsets)."""
        bound = self._now.end_offset
        if (undecided := cleaner.first_undecided_offset) is not None:
            bound = min(bound, undecided)
        if self._shared.min_compaction_lag_ms > 0:
            old_enough = self._shared.now_ms - self._shared.min_compaction_lag_ms
            for file, _ in self._segments:
                if self._facts[file].max_timestamp > old_enough:
                    return min(bound, file.base_offset)
        return bound

    def _index(self, cleaner: RecordCleaner, bound: int) -> None:
        dirty = [
            (file, size)
            for file, size in self._segments
            if self._facts[file].next_offset > self._first_dirty_offset and file.base_offset < bound
        ]
        cleaner.start_index(self._first_dirty_offset, bound)
        for file, size in dirty:
            for piece in self._pieces(file, size):
                for chunk in plain(file, piece):
                    if not _read(file, piece, cleaner.index, chunk):
                        return
        cleaner.finish_index()

    def _groups(self, segments: list[tuple[SegmentFile, int]]) -> Iterator[_Group]:
        """Neighbours that fit into one segment together, as they are (groupSegmentsBySize)."""
        group: list[tuple[SegmentFile, int]] = []
        group_bytes = 0
        for file, size in segments:
            end_offset = self._facts[file].next_offset
            if group and (
                group_bytes + size > self._shared.segment_bytes
                or end_offset - 1 - group[0][0].base_offset > _MAX_RELATIVE_OFFSET
            ):
                yield self._group(group)
                group, group_bytes = [], 0
            group.append((file, size))
            group_bytes += size
        if group:
            yield self._group(group)

    def _group(self, segments: list[tuple[SegmentFile, int]]) -> _Group:
        ends = [self._facts[file].next_offset for file, size in segments if size > 0]
        return _Group(segments, ends[-1] if ends else segments[0][0].base_offset)

    def _clean(self, cleaner: RecordCleaner, group: _Group) -> int:
        """Cleans and exchanges a group; says how many bytes are left of it."""
        old = [file for file, _ in group.segments]
        old_bytes = sum(size for _, size in group.segments)
        if old_bytes == 0:
            return 0
        path = cleaned_path(self._directory, old[0].base_offset)
        try:
            size, changed = self._write(cleaner, group, path)
            if not changed and len(old) == 1:
                self._shared.files.unlink(path)
                return size
        except BaseException:
            with contextlib.suppress(OSError):
                self._shared.files.unlink(path)
            raise
        swap = Swap(self._shared.files, self._directory, old)
        facts = self._facts_of(group)

        def exchange() -> None:
            generation, pause = self._now.generation, lambda: self._shared.spend(0)
            self._closed.replace(generation, old, (swap.new, size), swap.finish, pause)
            for file in old:
                del self._facts[file]
            self._facts[swap.new] = facts

        try:
            self._shared.keep(old)
            exchange()
        except BaseException:
            if swap.begun:
                self.unfinished = exchange
            else:
                with contextlib.suppress(OSError):
                    self._shared.files.unlink(path)
            raise
        return size

    def _facts_of(self, group: _Group) -> Facts:
        known = [self._facts[file] for file, _ in group.segments]
        return Facts(
            group.end_offset,
            max(one.max_timestamp for one in known),
            any(one.has_producers for one in known),
        )

    def _write(self, cleaner: RecordCleaner, group: _Group, path: Path) -> tuple[int, bool]:
        """The size of the cleaned file, and whether it differs from what it was made from."""
        files = self._shared.files
        size = unsynced = 0
        changed = False
        descriptor = files.create(path)
        try:
            for file, old_size in group.segments:
                for piece in self._pieces(file, old_size):
                    for chunk, original in _parts(file, piece):
                        kept = _read(
                            file, piece, lambda one: cleaner.clean(one, group.end_offset), chunk
                        )
                        if kept == chunk:
                            kept = original
                        else:
                            changed = True
                        if kept:
                            files.write(descriptor, kept)
                            self._shared.spend(len(kept))
                        size += len(kept)
                        unsynced += len(kept)
                        if unsynced >= _SYNC_BYTES:
                            files.sync(descriptor)
                            unsynced = 0
            files.sync(descriptor)
        finally:
            files.close(descriptor)
        return size, changed

    def _pieces(self, file: SegmentFile, size: int) -> Iterator[Piece]:
        """All of the segment, checked. A closed one that is broken now was sound once."""
        position, next_offset, stop = 0, file.base_offset, Stop.END
        for piece in pieces(file, file.base_offset, size, piece_bytes=self._shared.piece_bytes):
            yield piece
            position, stop = piece.position + piece.scan.end, piece.scan.stop
            next_offset = piece.scan.next_offset
            self._bytes_read += piece.scan.end
            self._shared.spend(piece.scan.end)
        if position != size:
            reason = f"was sound when it was opened, and is not any more ({stop.name.lower()})"
            raise CorruptLogError(file.path, position, next_offset, reason, recovery.ADVICE)


def _parts(file: SegmentFile, piece: Piece) -> Iterator[tuple[bytes, bytes]]:
    """Plain batches, and what stands in the file for them: the same, but for compressed ones.

    A compressed batch that stays whole stays as it is; what loses a record is written plain.
    """
    view, position = piece.view, 0
    while position < len(view):
        compressed_at = next_compressed(view, position)
        if compressed_at > position:
            chunk = bytes(view[position:compressed_at])
            yield chunk, chunk
        position = compressed_at
        if position < len(view):
            size = header(view, position).size
            yield expanded(file, piece, position), bytes(view[position : position + size])
            position += size


def _read(file: SegmentFile, piece: Piece, read: Callable[[bytes], T], chunk: bytes) -> T:
    try:
        return read(chunk)
    except ValueError as error:
        raise CorruptLogError(
            file.path,
            piece.position,
            getattr(error, "offset", file.base_offset),
            f"the CRC is right, but a record cannot be read ({error})",
            "its writer wrote it so; the log stays as it is, uncompacted",
        ) from None
