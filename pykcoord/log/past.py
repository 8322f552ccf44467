"""A partition's log with what compaction took from it put back, as far as it was kept.

Every compaction that keeps a history leaves the segments that it replaced; an older one holds all
records of a newer one of the same offsets. So each range of offsets is read from the oldest file
that has it, and what no kept file has from the log itself. Must never change a file.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pykcoord.errors import CorruptLogError, LogError
from pykcoord.log import checkpoint
from pykcoord.log._record_batch import Stop, header
from pykcoord.log.compaction.history import COMPLETE_SINCE_FILE, HISTORY_FOLDER, kept_folders
from pykcoord.log.folders import TOPIC
from pykcoord.log.partition import read_segments
from pykcoord.log.reader import LogReader, batches_from
from pykcoord.log.segment import SegmentFile, scan_segment

__all__ = ["Past"]

_NO_END = 2**63 - 1


class _Source(NamedTuple):
    """Offsets from `start` up to `end`, in a kept file; None: in the log itself."""

    start: int
    end: int
    segment: tuple[SegmentFile, int] | None


class Past:
    """The past of one partition of a log. Once it was read to its end, `complete_since_ms` says
    from when on the log is known in full; None: from its beginning."""

    def __init__(self, reader: LogReader, partition: int) -> None:
        self.complete_since_ms: int | None = None
        self._reader = reader
        self._partition = partition
        self._directory = reader.directory(partition)

    def read(self) -> Iterator[bytes]:
        """Chunks of whole, checked, uncompressed batches, in the order of their offsets. Raises
        CorruptLogError, and LogError where compaction removes files meanwhile: read again."""
        cleaned = checkpoint.read_cleaner_offsets(self._directory.parent, TOPIC)
        seen = _Seen(cleaned.get(self._partition, _NO_END))
        try:
            for chunk in self._chunks():
                seen.add(chunk)
                yield chunk
        except FileNotFoundError as error:
            raise LogError(
                f"{error.filename}: removed while it was read; a server compacts here: try again"
            ) from None
        self.complete_since_ms = self._complete_since(seen)

    def _chunks(self) -> Iterator[bytes]:
        log = _Ascending(self._reader.read(self._partition))
        for source in _cover(_kept(self._directory)):
            if source.segment is None:
                yield from log.between(source.start, source.end)
            else:
                kept = _Ascending(read_segments([source.segment]))
                yield from kept.between(source.start, source.end)

    def _complete_since(self, seen: _Seen) -> int | None:
        path = self._directory / HISTORY_FOLDER / COMPLETE_SINCE_FILE
        if path.exists():
            return int(path.read_text())
        if not seen.has_gaps:
            return None
        # Of a compaction that kept none: what replaced a record that is gone lies below its end.
        return seen.latest_ms


class _Seen:
    """What the headers of the batches tell: whether records are missing, and the time of the
    latest batch below an offset."""

    def __init__(self, below_offset: int) -> None:
        self.has_gaps = False
        self.latest_ms: int | None = None
        self._below_offset = below_offset
        self._next_offset = 0

    def add(self, chunk: bytes) -> None:
        position = 0
        while position < len(chunk):
            batch = header(chunk, position)
            whole = batch.record_count == batch.last_offset_delta + 1
            if batch.base_offset != self._next_offset or not whole:
                self.has_gaps = True
            if batch.base_offset < self._below_offset:
                self.latest_ms = max(batch.max_timestamp, self.latest_ms or 0)
            self._next_offset = batch.base_offset + batch.last_offset_delta + 1
            position += batch.size


class _Ascending:
    """Batches, taken by ranges of offsets that go up."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._chunk = b""

    def between(self, start: int, end: int) -> Iterator[bytes]:
        while chunk := self._chunk or next(self._chunks, b""):
            chunk = batches_from(chunk, start)
            position = _first_from(chunk, end)
            self._chunk = chunk[position:]
            if position:
                yield chunk[:position]
            if self._chunk:
                return


def _first_from(chunk: bytes, offset: int) -> int:
    """Where the first batch begins that starts at the offset or behind it."""
    position = 0
    while position < len(chunk) and (batch := header(chunk, position)).base_offset < offset:
        position += batch.size
    return position


def _kept(directory: Path) -> list[_Source]:
    """What the kept files hold, oldest first."""
    found = []
    for folder in kept_folders(directory):
        for path in sorted(folder.glob("*.log")):
            file = SegmentFile(int(path.stem), path)
            known = scan_segment(file, file.base_offset)
            if known.stop != Stop.END:
                raise CorruptLogError(
                    path,
                    known.sound_bytes,
                    known.next_offset,
                    "a segment that compaction replaced is damaged",
                    "restore the file from a copy, or delete its folder: the groups do not need it",
                )
            found.append(_Source(file.base_offset, known.next_offset, (file, known.size)))
    return found


def _cover(kept: list[_Source]) -> list[_Source]:
    """All offsets once, each from the first source that has it, in their order."""
    taken: list[_Source] = []
    for source in [*kept, _Source(0, _NO_END, None)]:
        start = source.start
        for other in sorted(taken, key=lambda one: one.start):
            if other.end <= start or start >= source.end:
                continue
            if other.start > start:
                taken.append(source._replace(start=start, end=min(other.start, source.end)))
            start = max(start, other.end)
        if start < source.end:
            taken.append(source._replace(start=start))
    return sorted(taken, key=lambda one: one.start)
