"""Checkpoints of shards in a folder or an object store: where one replay ended, another begins.

A state is written once, by one replay, and never changed. A task that runs again writes what is
there already, for the engine is deterministic; anything else is refused.
"""

from __future__ import annotations

import json
from pathlib import Path

from pykcoord.errors import ArgumentError
from pykcoord.log.shared import Store, open_store

__all__ = ["begin_state", "check_state", "load_checkpoint", "store_checkpoint"]

_FORMAT = 1
_FILE = "state.json"
_SHARDS = "shards"


def begin_state(location: str | Path, shards: int) -> None:
    """Makes room for the checkpoints of all shards. A place that a replay made and then ended
    before its first checkpoint is taken as it is. Raises ArgumentError if a state is there."""
    content = json.dumps({"format": _FORMAT, "shards": shards}).encode()
    store = open_store(location)
    if store.create(_FILE, content):
        return
    if store.read(_FILE) != content or store.names(_SHARDS):
        raise ArgumentError("checkpoints", f"{location} holds a state already: name another place")


def check_state(location: str | Path, shards: int) -> None:
    """Raises ArgumentError unless there are checkpoints of exactly these shards."""
    store = open_store(location)
    content = store.read(_FILE)
    if content is None:
        raise ArgumentError("state", f"{location} holds no state: there is no {_FILE}")
    try:
        found = json.loads(content)
        known = found["format"] == _FORMAT
        there = int(found["shards"])
    except (ValueError, TypeError, LookupError):
        raise ArgumentError("state", f"{location}/{_FILE} is not what a replay wrote") from None
    if not known:
        raise ArgumentError("state", f"{location} has format {found['format']}, not {_FORMAT}")
    if there != shards:
        raise ArgumentError("shards", f"{location} has the state of {there} shards, not {shards}")
    names = set(store.names(_SHARDS))
    missing = [shard for shard in range(shards) if _name(shard) not in names]
    if missing:
        reason = f"{location} has no checkpoint of shard {missing[0]}"
        raise ArgumentError("state", f"{reason}: the replay that wrote it did not end")


def store_checkpoint(location: str | Path, shard: int, checkpoint: bytes) -> None:
    """Writes the checkpoint of a shard; empty: it has seen nothing.

    Raises ArgumentError if there is another one: two replays write to one place.
    """
    store = open_store(location)
    if not store.create(_path(shard), checkpoint) and _read(store, location, shard) != checkpoint:
        reason = f"{location} has another checkpoint of shard {shard}: another replay wrote it"
        raise ArgumentError("checkpoints", reason)


def load_checkpoint(location: str | Path, shard: int) -> bytes:
    """The checkpoint of a shard, empty if it had seen nothing."""
    return _read(open_store(location), location, shard)


def _read(store: Store, location: str | Path, shard: int) -> bytes:
    content = store.read(_path(shard))
    if content is None:
        raise ArgumentError("state", f"{location} has no checkpoint of shard {shard}")
    return content


def _path(shard: int) -> str:
    return f"{_SHARDS}/{_name(shard)}"


def _name(shard: int) -> str:
    return f"{shard:05}.checkpoint"
