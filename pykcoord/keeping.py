"""Where what happens to groups is kept, by what a coordinator stores its groups in."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import NamedTuple

from pykcoord._native import merge_events
from pykcoord.config import Config
from pykcoord.log.event_keeping import EventKeeper, FileKeeper
from pykcoord.log.events import EventLimits
from pykcoord.log.lock import DirectoryLock, locked
from pykcoord.log.shared.event_keeping import ObjectKeeper
from pykcoord.log.shared.events import EventObjects
from pykcoord.log.shared.store import Store, is_folder, open_store
from pykcoord.recorded import EventFiles, EventPlace

__all__ = ["Events", "Keeping", "keep_beside", "keep_in", "keep_in_files"]

# How long events wait for others in a store where each call takes longer and costs money.
_FOLDER_SECONDS, _OBJECT_SECONDS = 1.0, 5.0
_INCARNATIONS = 2**64

Events = str | os.PathLike[str] | Store
"""A directory; the URL of an object store; or a store."""


class Keeping(NamedTuple):
    """What writes events, and where they are read."""

    keeper: EventKeeper
    place: EventPlace


def keep_in_files(directory: Path, config: Config, lock: DirectoryLock | None = None) -> Keeping:
    """In a directory that this process alone writes to; its `lock` is given up with the keeper."""
    keeper = FileKeeper(directory, _limits(config), merge_events, lock)
    return Keeping(keeper, EventFiles(directory))


def keep_beside(name: str, store: Store, incarnation: int, config: Config) -> Keeping:
    """In a store that processes share, each with an incarnation of its own; `name` is its place."""
    seconds = _FOLDER_SECONDS if is_folder(name) else _OBJECT_SECONDS
    keeper = ObjectKeeper(name, store, incarnation, _limits(config), merge_events, seconds)
    return Keeping(keeper, EventObjects(store, seconds))


def keep_in(events: Events, config: Config) -> Keeping:
    """Where a program says. Raises LogLockedError for a directory that another process has, OSError
    and what the store raises."""
    if isinstance(events, str | os.PathLike):
        place = os.fspath(events)
        if "://" not in place:
            return locked(Path(place), lambda path, lock: keep_in_files(path, config, lock))
        events, name = open_store(place), place
    else:
        name = f"a {type(events).__name__}"
    return keep_beside(name, events, secrets.randbelow(_INCARNATIONS), config)


def _limits(config: Config) -> EventLimits:
    return EventLimits(
        config.group_events_segment_bytes,
        config.group_events_retention_ms,
        config.group_events_retention_bytes,
        config.group_events_group_bytes,
    )
