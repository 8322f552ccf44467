"""Every change that compaction makes to a directory, one method each: tests stop it after any."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from pykcoord.log import checkpoint, durable

__all__ = ["Files"]


class Files:
    """The real file system. All methods raise OSError. `check` is called before any name is made,
    changed or removed, and may raise."""

    def __init__(self, check: Callable[[], None] = lambda: None) -> None:
        self._check = check

    def create(self, path: Path) -> int:
        """A descriptor of the new, empty file; an old one of that name is a failed attempt."""
        self._check()
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        return os.open(path, flags, durable.FILE_MODE)

    def write(self, descriptor: int, data: bytes) -> None:
        """All of `data`, behind what was written before."""
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]

    def sync(self, descriptor: int) -> None:
        """What was written is on disk."""
        os.fsync(descriptor)

    def close(self, descriptor: int) -> None:
        """Gives the descriptor up; says nothing of the disk."""
        os.close(descriptor)

    def rename(self, path: Path, name: Path) -> None:
        """Replaces `name`, if it is there."""
        self._check()
        os.replace(path, name)

    def link(self, path: Path, name: Path) -> None:
        """A second name of the file; it may have it already."""
        self._check()
        with contextlib.suppress(FileExistsError):
            os.link(path, name)

    def make_directory(self, path: Path) -> None:
        """Creates the directory, durably, if it is not there."""
        self._check()
        durable.make_directory(path)

    def remove_directory(self, path: Path) -> None:
        """Removes the directory, which is empty."""
        self._check()
        path.rmdir()

    def write_text(self, path: Path, text: str) -> None:
        """Replaces the file, durably."""
        self._check()
        with durable.replacing(path) as file:
            file.write(text.encode())
        durable.sync_directory(path.parent)

    def unlink(self, path: Path) -> None:
        """Removes the file, if it is there."""
        self._check()
        path.unlink(missing_ok=True)

    def sync_directory(self, directory: Path) -> None:
        """Names that were made, changed or removed there are so on disk."""
        durable.sync_directory(directory)

    def write_cleaner_offsets(self, directory: Path, topic: str, offsets: dict[int, int]) -> None:
        """Replaces the cleaner's checkpoint."""
        self._check()
        checkpoint.write_cleaner_offsets(directory, topic, offsets)
