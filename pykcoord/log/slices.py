"""A partition in a directory as somebody sees it who follows it: where it ends now, and its batches
between two offsets. Never reads what lies before the segment it needs, and changes nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path

from pykcoord.errors import LogError
from pykcoord.log import recovery
from pykcoord.log._record_batch import Stop
from pykcoord.log.protocol import OnCorruption
from pykcoord.log.reader import batches_from
from pykcoord.log.segment import SegmentFile, pieces, plain, plan, scan_segment

__all__ = ["PartitionEnds", "read_slice"]

_ATTEMPTS = 20


class PartitionEnds:
    """The first offset and the end of partitions, asked again and again: what was checked of the
    last segment is not read twice. `on_corruption` as for `pykcoord serve`."""

    def __init__(self, on_corruption: OnCorruption) -> None:
        self._on_corruption = on_corruption
        # Of each folder: inode and base offset of the last segment, sound bytes, next offset.
        self._known: dict[Path, tuple[int, int, int, int]] = {}
        self._looked_into: set[tuple[Path, int]] = set()

    def of(self, directory: Path) -> tuple[int, int]:
        """The first offset of the partition whose folder is `directory`, and the offset of the next
        record; (0, 0) for an empty one. Raises CorruptLogError, as a start on these files would, if
        the end is damaged, and LogError where its files change all the time."""
        for _ in range(_ATTEMPTS):
            segments = plan(directory).segments
            if not segments:
                return 0, 0
            try:
                return segments[0].base_offset, self._end(directory, segments[-1])
            except FileNotFoundError:  # a compaction took it away
                continue
        raise LogError(f"{directory}: its files change all the time; try again")

    def _end(self, directory: Path, last: SegmentFile) -> int:
        inode = last.path.stat().st_ino
        start, next_offset = 0, last.base_offset
        known = self._known.get(directory)
        if known is not None and known[:2] == (inode, last.base_offset):
            start, next_offset = known[2:]
        found = scan_segment(last, next_offset, start=start)
        if found.stop != Stop.END and (directory, found.size) not in self._looked_into:
            # Half a batch: of a write that goes on, or damage. Only the whole log shows which.
            recovery.cut_in_memory(recovery.examine(directory), self._on_corruption)
            self._looked_into.add((directory, found.size))
        self._known[directory] = (inode, last.base_offset, found.sound_bytes, found.next_offset)
        return found.next_offset


def read_slice(
    directory: Path, start: int, end: int, on_corruption: OnCorruption
) -> Iterator[bytes]:
    """Chunks of whole, checked, uncompressed batches that hold the offsets from `start` to before
    `end`, and some around them, none twice. Raises CorruptLogError."""
    next_offset = start
    for _ in range(_ATTEMPTS):
        try:
            for after, chunk in _read(directory, next_offset, end):
                # Of another attempt, or of a compaction: the pieces are not cut as they were.
                if rest := batches_from(chunk, next_offset):
                    yield rest
                next_offset = after
            if next_offset < end:
                recovery.cut_in_memory(recovery.examine(directory), on_corruption)
            return
        except FileNotFoundError:
            continue
    raise LogError(f"{directory}: its files change all the time; try again")


def _read(directory: Path, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Chunks, each after the offset behind the piece it is of; a piece counts when it is whole."""
    segments = plan(directory).segments
    first = bisect_right([file.base_offset for file in segments], start)
    for file in segments[max(0, first - 1) :]:
        if file.base_offset >= end:
            return
        for piece in pieces(file, file.base_offset):
            if piece.scan.next_offset > start:
                yield piece.scan.next_offset, b"".join(plain(file, piece))
            if piece.scan.next_offset >= end:
                return
        if piece.scan.stop != Stop.END:
            return
