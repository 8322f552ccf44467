"""Whether a data directory that is open still stands under its name: by its lock's file.

A lock holds a file, not a name: a directory that is moved away or deleted takes the lock with it,
and another process can take one under the old name. The code that changes a name in the directory
calls `check` first, and appends are answered only after a check that came behind their sync.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path

from pykcoord.errors import LogDirectoryLostError, LogError
from pykcoord.log.lock import LOCK_FILE
from pykcoord.log.protocol import Failure

__all__ = ["Presence", "Watch"]

_logger = logging.getLogger(__name__)

# What says that another file or none is there; other errors say nothing about it.
_GONE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ESTALE}
_INTERVAL_SECONDS = 1.0

_MOVED = (
    "the directory was moved away or deleted while it was in use; put it back, or restore it from "
    "a copy, and start again"
)
_REPLACED = (
    "another directory stands here than the one that was in use, which was moved away or deleted; "
    "decide which of the two counts, and start again with that one here"
)
_UNLOCKED = (
    "the .lock file was deleted or replaced while the directory was in use: another process may "
    "write here; stop that one, and start again"
)


class Presence:
    """Whether `directory` (absolute) is still the one that was locked, by `descriptor`."""

    def __init__(self, directory: Path, descriptor: int) -> None:
        self.directory = directory
        self._path = directory / LOCK_FILE
        status = os.fstat(descriptor)
        self._file = status.st_dev, status.st_ino
        self._directory = _identity(directory)

    @property
    def name(self) -> tuple[bytes, int, int]:
        """For `write_files`: path, device and inode of the lock's file."""
        return os.fsencode(self._path), *self._file

    def check(self) -> None:
        """Raises LogDirectoryLostError if another file or none stands under the lock's name,
        OSError if that cannot be found out."""
        try:
            found = _identity(self._path)
        except OSError as error:
            raise self.failure(error.errno or errno.EIO) from None
        if found != self._file:
            raise self.failure(errno.ESTALE)

    def failure(self, code: int) -> Failure:
        """What a look at the lock's name means that ended with errno `code`; ESTALE: another file
        is there."""
        if code not in _GONE:
            return OSError(code, os.strerror(code), str(self._path))
        try:
            found = _identity(self.directory)
        except OSError:
            return LogDirectoryLostError(self.directory, _MOVED)
        reason = _UNLOCKED if found == self._directory else _REPLACED
        return LogDirectoryLostError(self.directory, reason)


class Watch:
    """A thread that compares the lock while nothing is appended. `lost` is called there, at each
    look that finds another file or none."""

    def __init__(self, presence: Presence, lost: Callable[[LogError], None]) -> None:
        self._presence = presence
        self._lost = lost
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pykcoord-log-lock", daemon=True)

    def start(self) -> None:
        """Begins, after the first interval of a second."""
        self._thread.start()

    def close(self) -> None:
        """Ends."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(_INTERVAL_SECONDS):
            try:
                self._presence.check()
            except LogError as error:
                self._lost(error)
            except OSError as error:
                # An append fails of it; without appends there is nothing to promise.
                _logger.warning("%s", error, extra={"event": "lock_unknown", "error": str(error)})


def _identity(path: Path) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_dev, status.st_ino
