"""What goes from a store of journals: old snapshots, and rounds that are in two of them.

Which rounds may go is not decided here.
"""

from __future__ import annotations

import logging

from pykcoord.log.shared.entry import CorruptEntryError, decode_snapshot
from pykcoord.log.shared.rounds import journal_name, round_name, snapshots_name
from pykcoord.log.shared.store import Store

__all__ = ["Place", "delete_rounds", "keep_snapshots", "readable_snapshots", "snapshot_name"]

logger = logging.getLogger("pykcoord.cluster")

# The one before the last serves if the last cannot be read.
_KEPT_SNAPSHOTS = 2
# So many rounds are deleted before others have their turn.
_SLICE = 1_000

# The epoch of who wrote a snapshot, and the number of the first round of its journal that is not in
# it.
Place = tuple[int, int]


def snapshot_name(shard: int, place: Place) -> str:
    """The object of a snapshot."""
    epoch, index = place
    return f"{snapshots_name(shard)}/{epoch:010}-{index:012}"


def readable_snapshots(store: Store, shard: int) -> list[Place]:
    """The newest two that can be read, the newest first. Raises what the store raises."""
    found: list[Place] = []
    for name in reversed(store.names(snapshots_name(shard))):
        epoch, _, index = name.partition("-")
        place = int(epoch), int(index)
        try:
            content = store.read(snapshot_name(shard, place))
            if content is not None:
                decode_snapshot(snapshot_name(shard, place), content)
                found.append(place)
        except CorruptEntryError as error:
            logger.error("%s", error)
        if len(found) == _KEPT_SNAPSHOTS:
            break
    return found


def keep_snapshots(store: Store, shard: int) -> list[Place]:
    """Delete what is older than the newest two that can be read. Returns those two, the newest
    first; fewer if there are fewer. Raises what the store raises."""
    found = readable_snapshots(store, shard)
    if len(found) == _KEPT_SNAPSHOTS:
        oldest = snapshot_name(shard, found[-1])
        for name in store.names(snapshots_name(shard)):
            old = f"{snapshots_name(shard)}/{name}"
            if old < oldest:
                store.delete(old)
    return found


def delete_rounds(store: Store, incarnation: int, below: int, most: int = _SLICE) -> bool:
    """Delete rounds of a journal below a number, at most `most`. Whether there are no more. Raises
    what the store raises: then some are deleted, and the others by another call."""
    old = [int(name) for name in store.names(journal_name(incarnation))]
    old = [index for index in old if index < below]
    for index in old[:most]:
        store.delete(round_name(incarnation, index))
    return len(old) <= most
