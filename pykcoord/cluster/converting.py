"""A log with objects for each shard, as hosts of Spark once wrote it, becomes that of a cluster.

What the log amounts to is the first snapshot of each shard. The cluster's log begins with an entry
that says so, of a node that led all shards and is gone: it is put last, so that what was begun and
not ended is no cluster.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from pykcoord._native import ClusterView, Loader, Node, ReplayError
from pykcoord.clock import Clock
from pykcoord.cluster.looking import is_cluster
from pykcoord.cluster.topics import SharedTopics
from pykcoord.config import Config
from pykcoord.errors import KcoordError
from pykcoord.log.shared import FencedError, ShardLog, Snapshot, Store, open_store, other_kind
from pykcoord.log.shared.entry import encode
from pykcoord.log.shared.pruning import snapshot_name
from pykcoord.log.shared.rounds import entry_name, fence_journal, snapshots_name

__all__ = ["Converted", "UnreadableShardError", "convert"]

_LOG_FILE = "log.json"
_INCARNATIONS = 2**64
# The only round of the node that is said to have led all shards, and where its fence stands.
_END = 1


class Converted(NamedTuple):
    """How many shards there are, and how many of them have records."""

    shards: int
    with_records: int


class UnreadableShardError(KcoordError):
    """The log of a shard holds what no coordinator wrote."""

    def __init__(self, shard: int, index: int, error: ReplayError) -> None:
        super().__init__(
            f"shard {shard}, before entry {index}: offset {error.offset}: {error.reason}; "
            "restore the log from a copy"
        )
        self.shard = shard


def convert(
    source: str | Path,
    location: str | Path,
    progress: Callable[[int, int], None] = lambda shard, shards: None,
) -> Converted:
    """Make the cluster at `location` of the log at `source`; both are folders or URLs. `location`
    must be new. The hosts of `source` are to be stopped: one that runs still is fenced, and it is
    an error if one writes on. `progress` gets the shard that is read.

    Raises KcoordError where that cannot be, CorruptEntryError and UnreadableShardError for a log
    that is damaged, ArgumentError for the log of a stream, and what the stores raise.
    """
    old, new = open_store(source), open_store(location)
    shards = _shards(source, old)
    if is_cluster(new) or any(new.names(snapshots_name(shard)) for shard in range(shards)):
        where = os.fspath(location)
        raise KcoordError(f"{where} has objects of a cluster already: name a new place")
    writer = secrets.randbelow(_INCARNATIONS)
    logs: list[ShardLog] = []
    for shard in range(shards):
        progress(shard, shards)
        loader = Node(Config().native(), 1, secrets.token_bytes(32)).loader()
        logs.append(log := _ended(old, shard, loader))
        if log.next_offset == 0:
            continue
        content = b"".join(iter(loader.snapshot_chunk, None))
        snapshot = encode(Snapshot(0, log.next_offset, log.now_ms, content))
        new.create(snapshot_name(shard, (0, _END)), snapshot)
    empty = encode(Snapshot(0, 0))
    for log in logs:
        if log.next_offset == 0:
            new.create(snapshot_name(log.shard, (0, _END)), empty)
    if (topics := SharedTopics(old).read()) is not None:
        SharedTopics(new).write(topics)
    fence_journal(new, writer, _END, writer)
    for log in logs:
        _require_end(source, log)
    if not new.create(entry_name(0), ClusterView.begun(writer, shards).encode()):
        raise KcoordError(f"{os.fspath(location)}: a node has begun a cluster there meanwhile")
    return Converted(shards, sum(log.next_offset > 0 for log in logs))


def _shards(source: str | Path, store: Store) -> int:
    content = store.read(_LOG_FILE)
    if content is None:
        raise KcoordError(f"{os.fspath(source)} is no such log: it has no {_LOG_FILE}")
    try:
        return int(json.loads(content)["shards"])
    except (ValueError, TypeError, LookupError):
        raise KcoordError(f"{os.fspath(source)}/{_LOG_FILE} is damaged") from None


def _ended(store: Store, shard: int, loader: Loader) -> ShardLog:
    """The log of a shard, all of it in the loader, and nobody's any more."""
    log = ShardLog(store, shard)
    _load(log, loader)
    while log.next_index > 0 and not log.claim("pykcoord cluster convert", Clock().now_ms()):
        _follow(log, loader)
    return log


def _require_end(source: str | Path, log: ShardLog) -> None:
    """Raises KcoordError if somebody has written since it was read."""
    try:
        has_more = next(log.follow(), None) is not None
    except FencedError:
        has_more = True
    if has_more:
        raise KcoordError(
            f"{os.fspath(source)}: shard {log.shard} was written while it was read: stop the hosts "
            "of this log, and begin again in a new place"
        )


def _load(log: ShardLog, loader: Loader) -> None:
    snapshot = log.load()
    if snapshot is not None and snapshot.is_checkpoint:
        raise other_kind(log.shard, "its snapshot is a stream's")
    if snapshot is not None and snapshot.content:
        _apply(log, loader.restore, snapshot.content)
    _follow(log, loader)


def _follow(log: ShardLog, loader: Loader) -> None:
    for entry in log.follow():
        if entry.responses:
            raise other_kind(log.shard, f"entry {log.next_index - 1} was written by a stream")
        if entry.batches:
            _apply(log, loader.replay, entry.batches)


def _apply(log: ShardLog, apply: Callable[[bytes], None], content: bytes) -> None:
    try:
        apply(content)
    except ReplayError as error:
        raise UnreadableShardError(log.shard, log.next_index, error) from error
