"""Where what is followed is kept: in a directory, or nowhere. Both say where to go on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from pykcoord.clock import Clock
from pykcoord.log.copied import Copied
from pykcoord.log.copied_directory import CopiedDirectory
from pykcoord.watch.state import WatchedState

__all__ = ["Copy", "Kept", "NotKept"]


class Copy(Protocol):
    """One partition. `epochs` are the leader epochs of what was read, with their first offsets."""

    next_offset: int

    @property
    def last_epoch(self) -> int:
        """Of the last batch; -1: none."""

    @property
    def epochs(self) -> list[tuple[int, int]]:
        """(leader epoch, first offset), ascending."""

    def append(self, copied: Copied) -> None:
        """Takes the next batches."""

    def truncate(self, offset: int) -> list[Path]:
        """Gives up what ends at or above `offset`; `next_offset` is then at or below it. Returns
        the files in which that is kept."""

    def read(self) -> Iterator[bytes]:
        """Chunks of all that is kept."""


class _Passing:
    """Nothing is kept: what is taken back is read again from the start."""

    def __init__(self, next_offset: int = 0) -> None:
        self.next_offset = next_offset
        self.epochs: list[tuple[int, int]] = []

    @property
    def last_epoch(self) -> int:
        return self.epochs[-1][0] if self.epochs else -1

    def append(self, copied: Copied) -> None:
        last = self.last_epoch
        self.next_offset = copied.next_offset
        self.epochs += [one for one in copied.epochs if one[0] > last]

    def truncate(self, offset: int) -> list[Path]:
        self.next_offset, self.epochs = 0, []
        return []

    def read(self) -> Iterator[bytes]:
        return iter(())


class NotKept:
    """Copies that only say where to go on."""

    def take(self, number: int, state: WatchedState) -> Copy:
        """A partition that begins at 0."""
        state.begin(number)
        return _Passing()

    def begin_anew(self, number: int, state: WatchedState, offset: int) -> tuple[Copy, Path | None]:
        """The partition without what it held, from `offset` on; and where that is kept."""
        state.begin(number)
        return _Passing(offset), None


class Kept:
    """Copies in a directory, with their state replayed from it."""

    def __init__(self, directory: CopiedDirectory) -> None:
        self._directory = directory

    def take(self, number: int, state: WatchedState) -> Copy:
        """A partition with what the directory has of it. Raises LogError, OSError."""
        partition = state.begin(number)
        return self._directory.partition(number, partition.replay)

    def begin_anew(self, number: int, state: WatchedState, offset: int) -> tuple[Copy, Path | None]:
        """The partition without what it held, from `offset` on; and where that is kept."""
        aside = self._directory.set_aside(Clock().now_ms(), number)
        partition = state.begin(number)
        copy = self._directory.partition(number, partition.replay)
        copy.next_offset = offset
        return copy, aside
