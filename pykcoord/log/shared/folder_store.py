"""A folder as the place of a shared log, on a file system that has `link(2)`.

A folder can be unmounted, moved or deleted under a process that writes to it, and another one be
there then under the same name. What is written to that one nobody else sees. So the store opens the
folder once, works in what it opened, and does nothing while the path leads elsewhere.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import threading
import uuid
import weakref
from collections.abc import Iterator
from pathlib import Path

__all__ = ["FolderGoneError", "FolderStore", "NoLinksError"]

_STAGED = ".staged-"
_IDENTITY = ".pykcoord-store"
# What link(2) says where the file system has no hard links.
_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS})


class FolderGoneError(OSError):
    """The folder is not where it was, or another one is there: nothing was done."""

    def __init__(self, root: Path, found: str) -> None:
        super().__init__(
            f"{root} is not the folder that it was: {found}. Nothing is written there; mount it "
            "again, or put it back, and all goes on"
        )


class NoLinksError(OSError):
    """The folder's file system has no hard links: nothing was made."""

    def __init__(self, name: str, error: OSError) -> None:
        super().__init__(
            error.errno,
            f"{error.strerror}: the folder's file system has no hard links (link(2)), by which an "
            "object is made once: take another one, or an object store",
            name,
        )


class FolderStore:
    """See `pykcoord.log.shared.Store`. The folder `root` is made by the first `create`, and never
    again: see `FolderGoneError`, which all methods raise once the folder is known."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._opened: _Opened | None = None
        self._gate = threading.Lock()

    def create(self, name: str, content: bytes) -> bool:
        """See `Store`. The object appears whole: it is written and synced under another name."""
        folder = self._known()
        if folder is None:
            folder = self._begin()
        folder.identify()
        parent = os.path.dirname(name)
        folder.make(parent)
        staged = os.path.join(parent, f"{_STAGED}{uuid.uuid4().hex}")
        is_made = folder.put(staged, name, content)
        if is_made:
            folder.sync(parent)
        self._require(folder)
        return is_made

    def read(self, name: str) -> bytes | None:
        """See `Store`."""
        folder = self._known()
        if folder is None:
            return None
        try:
            return folder.read(name)
        except FileNotFoundError:
            self._require(folder)
            return None

    def names(self, folder: str) -> list[str]:
        """See `Store`."""
        opened = self._known()
        if opened is None:
            return []
        try:
            found = opened.names(folder)
        except FileNotFoundError:
            self._require(opened)
            return []
        return sorted(name for name in found if not name.startswith(_STAGED))

    def delete(self, name: str) -> None:
        """See `Store`."""
        if (folder := self._known()) is not None:
            folder.delete(name)

    def _begin(self) -> _Opened:
        """Make the folder."""
        missing = [one for one in (self.root, *self.root.parents) if not one.is_dir()]
        self.root.mkdir(parents=True, exist_ok=True)
        for made in missing:
            _sync_path(made.parent)
        folder = self._known()
        if folder is None:
            raise FolderGoneError(self.root, "it was removed as soon as it was made")
        return folder

    def _known(self) -> _Opened | None:
        """The folder, opened; None if there was none yet."""
        with self._gate:
            if self._opened is None:
                with contextlib.suppress(FileNotFoundError):
                    self._opened = _Opened(self.root)
            else:
                self._opened = self._same(self._opened)
            return self._opened

    def _require(self, folder: _Opened) -> None:
        """What was done in the folder was done in the one that all see."""
        with self._gate:
            self._same(folder)

    def _same(self, folder: _Opened) -> _Opened:
        """The folder that is at the path now, if it is this one: another mount of it is."""
        try:
            now = os.stat(self.root)
        except FileNotFoundError:
            raise FolderGoneError(self.root, "there is none") from None
        except OSError as error:
            raise FolderGoneError(self.root, error.strerror or str(error)) from None
        if (now.st_dev, now.st_ino) != folder.place:
            folder = self._another_mount(folder)
        if not folder.is_whole():
            raise FolderGoneError(self.root, f"its file {_IDENTITY} is gone")
        return folder

    def _another_mount(self, before: _Opened) -> _Opened:
        try:
            folder = _Opened(self.root)
        except OSError as error:
            raise FolderGoneError(self.root, error.strerror or str(error)) from None
        if folder.identity is None or folder.identity != before.identity:
            raise FolderGoneError(self.root, "another one is there")
        return folder


class _Opened:
    """A folder by a descriptor: names are below it, wherever it is. While it is open its inode is
    not given to another folder."""

    def __init__(self, root: Path) -> None:
        self._at = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
        weakref.finalize(self, os.close, self._at)
        found = os.fstat(self._at)
        self.place = (found.st_dev, found.st_ino)
        self.identity = self._identity()

    def identify(self) -> None:
        """Have a file in it that says which folder this is. Where none was ever, this makes it."""
        if self.identity is None:
            staged = f"{_STAGED}{uuid.uuid4().hex}"
            self.put(staged, _IDENTITY, secrets.token_hex(16).encode() + b"\n")
            self.sync("")
            self.identity = self._identity()

    def is_whole(self) -> bool:
        """Whether the file of `identify` is there, if it ever was."""
        if self.identity is None:
            return True
        try:
            os.stat(_IDENTITY, dir_fd=self._at)
        except OSError:
            return False
        return True

    def put(self, staged: str, name: str, content: bytes) -> bool:
        """Whether the file was made now, whole and synced; its folder is not synced."""
        try:
            self._write(staged, content)
            os.link(staged, name, src_dir_fd=self._at, dst_dir_fd=self._at)
        except FileExistsError:
            return False
        except OSError as error:
            # One that names two files is link's.
            if error.errno in _NO_LINKS and error.filename2 is not None:
                raise NoLinksError(name, error) from None
            raise
        finally:
            self.delete(staged)
        return True

    def read(self, name: str) -> bytes:
        with open(os.open(name, os.O_RDONLY, dir_fd=self._at), "rb") as file:
            return file.read()

    def names(self, folder: str) -> list[str]:
        with self._open(folder) as descriptor:
            return os.listdir(descriptor)

    def delete(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._at)

    def make(self, folder: str) -> None:
        """The folder and those that it is in, synced where they are new."""
        try:
            os.stat(folder or ".", dir_fd=self._at)
        except FileNotFoundError:
            parent = os.path.dirname(folder)
            self.make(parent)
            with contextlib.suppress(FileExistsError):
                os.mkdir(folder, dir_fd=self._at)
            self.sync(parent)

    def sync(self, folder: str) -> None:
        with self._open(folder) as descriptor:
            os.fsync(descriptor)

    @contextlib.contextmanager
    def _open(self, folder: str) -> Iterator[int]:
        flags = os.O_RDONLY | os.O_DIRECTORY
        descriptor = os.open(folder or ".", flags, dir_fd=self._at)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _identity(self) -> bytes | None:
        try:
            return self.read(_IDENTITY)
        except FileNotFoundError:
            return None

    def _write(self, name: str, content: bytes) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        descriptor = os.open(name, flags, 0o644, dir_fd=self._at)
        try:
            view = memoryview(content)
            while view:
                view = view[os.write(descriptor, view) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _sync_path(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
