"""The cluster log in its store: its entries, and the snapshots of what they amount to.

What an entry says, when a snapshot is due and what goes is decided elsewhere (`native/cluster`).
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

from pykcoord._native import ClusterView
from pykcoord.errors import KcoordError
from pykcoord.log.shared.rounds import CLUSTER_LOG, entry_name
from pykcoord.log.shared.store import Store

__all__ = [
    "LOG_SNAPSHOTS",
    "begin",
    "put_snapshot",
    "read_entries",
    "readable_snapshots",
    "snapshot_name",
    "trim",
]

logger = logging.getLogger("pykcoord.cluster")

LOG_SNAPSHOTS = "cluster-snapshots"
"""The folder of the snapshots of the cluster log."""
# The one before the last serves if the last cannot be read.
_KEPT = 2
# So many entries are deleted before others have their turn.
_SLICE = 1_000


def snapshot_name(index: int) -> str:
    """The object of a snapshot: all entries below `index` are in it."""
    return f"{LOG_SNAPSHOTS}/{index:012}"


def begin(location: str | Path, store: Store) -> str | None:
    """The newest snapshot that can be read, with which a reader begins; None where there is none:
    it begins with the entry 0.

    Raises KcoordError where the store has lost an entry behind it that others came after: who does
    not see it would put another one there; and what the store raises.
    """
    index, text = next(iter(_readable(store, 1)), (0, None))
    # All before are in the snapshot, and some of them are gone.
    names = [name for name in store.names(CLUSTER_LOG) if int(name) >= index]
    for at, name in enumerate(names, index):
        if int(name) == at:
            continue
        if store.read(entry_name(at)) is None:  # or else it is only not listed
            raise KcoordError(
                f"{os.fspath(location)}: {entry_name(at)} is gone, and there are entries of the "
                "cluster log after it: restore it from a copy. Nothing is served from what is left"
            )
        break
    return text


def read_entries(store: Store, start: int) -> list[str]:
    """The texts of the entries from `start` on. Raises UnicodeDecodeError, and what the store
    raises."""
    texts: list[str] = []
    while (content := store.read(entry_name(start + len(texts)))) is not None:
        texts.append(content.decode())
    return texts


def put_snapshot(store: Store, index: int, text: str) -> list[int]:
    """Write a snapshot down. Returns what `readable_snapshots` does then; raises what the store
    raises."""
    store.create(snapshot_name(index), text.encode())
    return readable_snapshots(store)


def readable_snapshots(store: Store) -> list[int]:
    """The numbers of the newest two snapshots that can be read, the newest first. Raises what the
    store raises."""
    return [index for index, _ in _readable(store, _KEPT)]


def trim(store: Store, head: int, below: int, most: int = _SLICE) -> bool:
    """Delete the entries above `head` and below `below`, at most `most`, and the snapshots below.
    Whether there are no more. Raises what the store raises: then another call deletes the rest."""
    old = [index for name in store.names(CLUSTER_LOG) if head < (index := int(name)) < below]
    for index in old[:most]:
        store.delete(entry_name(index))
    if len(old) > most:
        return False
    for name in store.names(LOG_SNAPSHOTS):
        if int(name) < below:
            store.delete(snapshot_name(int(name)))
    return True


def _readable(store: Store, most: int) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    for name in reversed(store.names(LOG_SNAPSHOTS)):
        index = int(name)
        content = store.read(snapshot_name(index))
        try:
            if content is not None and ClusterView(text := content.decode()).next_index == index:
                found.append((index, text))
        except ValueError as error:  # UnicodeDecodeError is one
            logger.error("%s: the snapshot of the cluster log %s", snapshot_name(index), error)
        if len(found) == most:
            break
    return found
