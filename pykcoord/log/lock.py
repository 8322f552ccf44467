"""The lock of a data directory: one process at a time writes there, or those that it started.

Kafka's brokers lock the same file, `.lock`, by fcntl: that lock is taken as well. POSIX drops it
with the first descriptor of the file that the process closes, so a file that is locked here is
never opened again. Must never outlive its holder unasked: a child of fork gives its copy up at
once.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Self, TypeVar

from pykcoord.errors import LogError, LogLockedError
from pykcoord.log.durable import FILE_MODE, make_directory
from pykcoord.log.naming import naming

__all__ = ["LOCK_FILE", "DirectoryLock", "locked"]

LOCK_FILE = ".lock"
_CLOSED = -1
_Made = TypeVar("_Made")


def locked(
    directory: Path, make: Callable[[Path, DirectoryLock], _Made], *, kept_by_children: bool = False
) -> _Made:
    """What `make` makes of a directory, which is made if it is missing, and its lock. The lock is
    given up where that fails. Raises as `DirectoryLock.take` and `make` do."""
    directory = directory.absolute()
    make_directory(directory)
    lock = DirectoryLock.take(directory, kept_by_children)
    try:
        return make(directory, lock)
    except BaseException:
        lock.close()
        raise


class DirectoryLock:
    """The lock of `directory`, held from `take` to `close`.

    A child of fork shares the open file, and with it the lock: it would keep the directory after
    this process has closed it. So it closes its copy before anything else runs in it, and `close`
    unlocks for all that share the file. A supervisor whose children are to hold the directory with
    it sets `kept_by_children` before it forks: then the lock is free when all of them have closed
    it, or ended. A program that is started by exec holds it so as well, by
    `subprocess.Popen(..., pass_fds=[lock.descriptor])`, and makes it its own by `inherited`.
    Kafka's fcntl lock is never inherited: each takes a share of it, which keeps a broker away.
    """

    def __init__(self, directory: Path, descriptor: int, kept_by_children: bool = False) -> None:
        self.directory = directory
        self.descriptor = descriptor
        """The open `.lock`; -1 once it was closed, and in a child that does not keep it."""
        self.kept_by_children = kept_by_children

    @classmethod
    def take(cls, directory: Path, kept_by_children: bool = False) -> Self:
        """Takes the lock. Raises LogLockedError if another process has it, or this one; LogError if
        the directory cannot be written to, OSError."""
        with _no_fork:
            _check_not_held_here(directory)
            lock = cls(directory, _open(directory), kept_by_children)
            _known.add(lock)
        try:
            lock._acquire(fcntl.LOCK_EX)
            lock._sign()
        except BaseException:
            lock.close()
            raise
        return lock

    @classmethod
    def inherited(cls, directory: Path, descriptor: int) -> Self:
        """The lock that another process took with `kept_by_children`, by the descriptor that this
        one was started with. Raises LogLockedError if another process has it, OSError."""
        with _no_fork:
            lock = cls(directory, descriptor, kept_by_children=True)
            os.set_inheritable(descriptor, False)
            _known.add(lock)
        try:
            lock._acquire(fcntl.LOCK_EX)
        except BaseException:
            lock.close()
            raise
        return lock

    @classmethod
    def share(cls, directory: Path) -> Self | None:
        """Keeps others from taking the lock until `close`; None where there is no `.lock`, which
        is not made. Raises LogLockedError if another process has taken it, or if this one has it;
        OSError."""
        with _no_fork:
            _check_not_held_here(directory)
            try:
                descriptor = os.open(directory / LOCK_FILE, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                return None
            lock = cls(directory, descriptor)
            _known.add(lock)
        try:
            lock._acquire(fcntl.LOCK_SH)
        except BaseException:
            lock.close()
            raise
        return lock

    @property
    def held(self) -> bool:
        """Whether this process holds it."""
        return self.descriptor != _CLOSED

    def close(self) -> None:
        """Gives the lock up. Safe to call twice."""
        with _no_fork:
            if self.held and not self.kept_by_children:
                fcntl.flock(self.descriptor, fcntl.LOCK_UN)
            self._close_copy()

    def _close_copy(self) -> None:
        descriptor, self.descriptor = self.descriptor, _CLOSED
        if descriptor != _CLOSED:
            os.close(descriptor)

    def _acquire(self, how: int) -> None:
        try:
            fcntl.flock(self.descriptor, how | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self.descriptor, 20, 0).strip()
            pid = int(holder) if holder.isdigit() else None
            raise LogLockedError(self.directory, pid) from None
        try:
            # Several processes can hold Kafka's lock only if each has a share of it.
            shared = fcntl.LOCK_SH if self.kept_by_children else how
            fcntl.lockf(self.descriptor, shared | fcntl.LOCK_NB)
        except OSError:
            raise LogLockedError(self.directory) from None

    def _sign(self) -> None:
        """Says in the file who has it."""
        with naming(self.directory / LOCK_FILE):
            os.ftruncate(self.descriptor, 0)
            os.pwrite(self.descriptor, f"{os.getpid()}\n".encode(), 0)


# Held while a lock's file is opened or closed, and over a fork: a child knows all that are open.
_no_fork = threading.RLock()
_known: weakref.WeakSet[DirectoryLock] = weakref.WeakSet()


def _check_not_held_here(directory: Path) -> None:
    try:
        found = os.stat(directory / LOCK_FILE)
    except OSError:  # opening it says why
        return
    for lock in _known:
        if lock.held and os.path.samestat(os.fstat(lock.descriptor), found):
            raise LogLockedError(directory, os.getpid())


def _open(directory: Path) -> int:
    try:
        return os.open(directory / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        raise LogError(
            f"{directory}: cannot be written to ({error.strerror}); serve needs to write there, "
            "`pykcoord log state|dump|verify` do not"
        ) from error


def _in_child() -> None:
    _no_fork.release()
    for lock in list(_known):
        if not lock.kept_by_children:
            lock._close_copy()  # not `close`: it would unlock for the parent


os.register_at_fork(
    before=_no_fork.acquire, after_in_parent=_no_fork.release, after_in_child=_in_child
)
