"""From a shard's log to its state: the newest snapshot, and the entries behind it."""

from __future__ import annotations

from collections.abc import Callable

from pykcoord._native import Loader, ReplayError
from pykcoord.errors import KcoordError
from pykcoord.log.shared import ShardLog, other_kind

__all__ = ["UnreadableShardError", "follow_into", "load_into"]


class UnreadableShardError(KcoordError):
    """The log of a shard holds what no coordinator wrote."""

    def __init__(self, shard: int, index: int, error: ReplayError) -> None:
        super().__init__(
            f"shard {shard}, before entry {index}: offset {error.offset}: {error.reason}; "
            "restore the log from a copy"
        )
        self.shard = shard


def load_into(log: ShardLog, loader: Loader) -> None:
    """Read a log from its newest snapshot to its end. The loader must be new.

    Raises ArgumentError for the log of a stream, UnreadableShardError, CorruptEntryError, and what
    the store raises.
    """
    snapshot = log.load()
    if snapshot is not None and snapshot.is_checkpoint:
        raise other_kind(log.shard, "its snapshot is a stream's")
    if snapshot is not None and snapshot.content:
        _apply(log, loader.restore, snapshot.content)
    follow_into(log, loader)


def follow_into(log: ShardLog, loader: Loader) -> None:
    """Read on to the end. Raises as `load_into`."""
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
