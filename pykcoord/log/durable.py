"""What a power cut must not take: files, their names, and the directories they are in, synced; and
the permissions with which all of them are made.

Nothing here knows what is in a file. Must never write one in place.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from pykcoord.log.naming import naming

__all__ = [
    "FILE_MODE",
    "make_directory",
    "new_directory",
    "private",
    "replacing",
    "sync_directory",
    "sync_file",
]

# A log holds group ids, client addresses and offsets: for its owner, and for a group that backs it
# up or reads it with `pykcoord log`. The umask takes away more, where it says so.
FILE_MODE = 0o640
_DIRECTORY_MODE = 0o750


def private(path: str, flags: int) -> int:
    """An `opener` of `open`, for files that may be made."""
    return os.open(path, flags | os.O_CLOEXEC, FILE_MODE)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A new file to write to, which takes the place of `path`, synced, where the block ends. Its
    name is durable once its directory is synced, too.

    After a crash at any point the old file or the new one is there, whole. An error, of the block
    too, leaves the old one, and nothing beside it. Raises OSError, which names a file.
    """
    # Kafka's CheckpointFile does the same, with the same suffix.
    fresh = path.with_name(path.name + ".tmp")
    try:
        with naming(fresh), open(fresh, "wb", opener=private) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, path)
    except BaseException:
        with contextlib.suppress(OSError):
            fresh.unlink()
        raise


def make_directory(path: Path) -> None:
    """Creates the directory, and those above it that are missing, durably. Raises OSError.

    Those above get the permissions that the process gives to any directory.
    """
    for directory in reversed(path.parents):
        if not directory.is_dir():
            directory.mkdir(exist_ok=True)
            sync_directory(directory.parent)
    if not path.is_dir():
        new_directory(path, exist_ok=True)
        sync_directory(path.parent)


def new_directory(path: Path, *, exist_ok: bool = False) -> None:
    """Creates one directory. Raises OSError."""
    path.mkdir(_DIRECTORY_MODE, exist_ok=exist_ok)


def sync_directory(directory: Path) -> None:
    """Makes created, renamed and deleted names in `directory` durable. Raises OSError."""
    _sync(directory, os.O_RDONLY | os.O_DIRECTORY)


def sync_file(path: Path) -> None:
    """Makes durable what was written to the file, through any descriptor. Raises OSError."""
    _sync(path, os.O_RDONLY)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        with naming(path):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
