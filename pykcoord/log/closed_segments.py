"""The segments of a partition that are no longer written, as the writer's thread, the cleaner's
and readers share them.

Files are replaced by `replace` only, and never under a reader, nor while the partition is being
recovered. Must never keep the writer waiting for anything but a few renames.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from pykcoord.log.segment import SegmentFile

__all__ = ["Closed", "ClosedSegments", "Reopened"]

_READER_POLL_SECONDS = 0.05


class Closed(NamedTuple):
    """The closed segments with their sizes in bytes, at one moment; the active one begins at
    `end_offset`. `generation` changes when the partition is recovered from disk: what was seen
    before says nothing any more."""

    generation: int
    segments: list[tuple[SegmentFile, int]]
    end_offset: int


class Reopened(Exception):
    """The partition was recovered meanwhile: what was to be replaced may not be there."""


class ClosedSegments:
    """A list of (file, size), in order of offsets. May be used on any thread."""

    def __init__(self) -> None:
        self._segments: list[tuple[SegmentFile, int]] = []
        self._end_offset = 0
        self._generation = 0
        self._readers = 0
        self._listing = threading.Condition()
        # Held while names change on disk: by a swap, or by recovery.
        self._settling = threading.Lock()

    @property
    def size_bytes(self) -> int:
        """Of all of them together."""
        with self._listing:
            return sum(size for _, size in self._segments)

    def now(self) -> Closed:
        """What is there at this moment."""
        with self._listing:
            return Closed(self._generation, list(self._segments), self._end_offset)

    def append(self, file: SegmentFile, size: int, end_offset: int) -> None:
        """A segment is full; the writer goes on in another, from `end_offset` on."""
        with self._listing:
            self._segments.append((file, size))
            self._end_offset = end_offset

    @contextmanager
    def recovering(self) -> Iterator[None]:
        """While the partition is read back from disk: no file is replaced meanwhile."""
        with self._settling:
            yield

    def reset(self, segments: Sequence[tuple[SegmentFile, int]], end_offset: int) -> None:
        """What recovery found."""
        with self._listing:
            self._segments = list(segments)
            self._end_offset = end_offset
            self._generation += 1

    @contextmanager
    def reading(self) -> Iterator[list[tuple[SegmentFile, int]]]:
        """The segments; none of them is replaced until the reader is done."""
        with self._settling, self._listing:
            self._readers += 1
            segments = list(self._segments)
        try:
            yield segments
        finally:
            with self._listing:
                self._readers -= 1
                self._listing.notify_all()

    def replace(
        self,
        generation: int,
        old: Sequence[SegmentFile],
        new: tuple[SegmentFile, int],
        swap: Callable[[], None],
        pause: Callable[[], None],
    ) -> None:
        """Runs `swap`, which puts the file of `new` in the place of `old`, and takes note of it.

        Waits for readers first; `pause` is called meanwhile and may raise to give up. Raises
        Reopened, and what `swap` raises: the list is as it was then.
        """
        while not self._try_replace(generation, old, new, swap):
            pause()
            with self._listing:
                self._listing.wait_for(lambda: self._readers == 0, _READER_POLL_SECONDS)

    def _try_replace(
        self,
        generation: int,
        old: Sequence[SegmentFile],
        new: tuple[SegmentFile, int],
        swap: Callable[[], None],
    ) -> bool:
        with self._settling:
            with self._listing:
                if self._generation != generation:
                    raise Reopened
                if self._readers:
                    return False
            swap()
            with self._listing:
                files = [file for file, _ in self._segments]
                start = files.index(old[0])
                assert files[start : start + len(old)] == list(old), (files, old)
                self._segments[start : start + len(old)] = [new]
            return True
