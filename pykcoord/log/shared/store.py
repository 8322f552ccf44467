"""Where a shard log lies: a folder, or an object store.

A log needs one thing of it: `create` succeeds for one caller only, and what it made is whole,
durable and never changed. Nothing is overwritten here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from pykcoord.log.shared.folder_store import FolderStore

__all__ = ["FolderStore", "Store", "is_folder", "open_store"]


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


def is_folder(location: str) -> bool:
    """Whether that is a folder, and no object store: there each call takes longer, and costs."""
    return "://" not in location or location.startswith("file://")


def open_store(location: str | Path) -> Store:
    """The store at a path, or at a URL that `obstore` knows: `s3://`, `gs://`, `az://`.

    Settings of an object store (keys, regions, endpoints) come from its usual environment
    variables. Raises ImportError for a URL where obstore is not installed, KcoordError for one of
    no store that it knows, and what obstore raises.
    """
    text = str(location)
    if is_folder(text):
        return FolderStore(Path(text.removeprefix("file://")))
    from pykcoord.log.shared.object_store import open_url  # it needs a library that is optional

    return open_url(text)
