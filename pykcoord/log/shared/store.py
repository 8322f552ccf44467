"""Where a shard log lies: a folder, or an object store.

A log needs one thing of it: `create` succeeds for one caller only, and what it made is whole,
durable and never changed. Nothing is overwritten here.
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Protocol

__all__ = ["FolderStore", "Store", "open_store"]

_STAGED = ".staged-"


class Store(Protocol):
    """Objects by name; `/` parts a name into folders."""

    def create(self, name: str, content: bytes) -> bool:
        """Makes the object, durable when this returns; False if there is one of that name.

        After an exception it is not known whether it was made.
        """

    def read(self, name: str) -> bytes | None:
        """The whole object; None if there is none."""

    def names(self, folder: str) -> list[str]:
        """The last parts of all names in a folder, sorted."""

    def delete(self, name: str) -> None:
        """Removes the object, if it is there."""


def open_store(location: str | Path) -> Store:
    """The store at a path, or at a URL that `obstore` knows: `s3://`, `gs://`, `az://`.

    Settings of an object store (keys, regions, endpoints) come from its usual environment
    variables. Raises ImportError for a URL where obstore is not installed, and what obstore raises
    for a URL that it does not know.
    """
    text = str(location)
    if "://" not in text or text.startswith("file://"):
        return FolderStore(Path(text.removeprefix("file://")))
    from pykcoord.log.shared.object_store import open_url  # it needs a library that is optional

    return open_url(text)


class FolderStore:
    """A folder that all writers see, on a file system that has `link(2)`."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def create(self, name: str, content: bytes) -> bool:
        """See `Store`. The object appears whole: it is written and synced under another name."""
        target = self.root / name
        self._make_folder(target.parent)
        staged = target.parent / f"{_STAGED}{uuid.uuid4().hex}"
        try:
            _write(staged, content)
            os.link(staged, target)
        except FileExistsError:
            return False
        finally:
            staged.unlink(missing_ok=True)
        _sync_folder(target.parent)
        return True

    def read(self, name: str) -> bytes | None:
        """See `Store`."""
        try:
            return (self.root / name).read_bytes()
        except FileNotFoundError:
            return None

    def names(self, folder: str) -> list[str]:
        """See `Store`."""
        try:
            found = os.listdir(self.root / folder)
        except FileNotFoundError:
            return []
        return sorted(name for name in found if not name.startswith(_STAGED))

    def delete(self, name: str) -> None:
        """See `Store`."""
        (self.root / name).unlink(missing_ok=True)

    def _make_folder(self, folder: Path) -> None:
        if folder.is_dir():
            return
        missing = [folder, *folder.parents]
        missing = missing[: next(at for at, each in enumerate(missing) if each.is_dir())]
        folder.mkdir(parents=True, exist_ok=True)
        for made in missing:
            _sync_folder(made.parent)


def _write(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
