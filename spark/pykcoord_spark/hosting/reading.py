"""From a shard's log to its state: the newest snapshot, and the chunks behind it."""

from __future__ import annotations

from collections.abc import Callable

from pykcoord._native import ReplayError, Replica
from pykcoord.errors import KcoordError
from pykcoord_spark.shard_log import ShardLog, other_kind

__all__ = ["UnreadableShardError", "follow_into", "load_into"]


class UnreadableShardError(KcoordError):
    """The log of a shard holds what no coordinator wrote."""

    def __init__(self, shard: int, index: int, error: ReplayError) -> None:
        super().__init__(
            f"shard {shard}, before chunk {index}: offset {error.offset}: {error.reason}; "
            "restore the log from a copy"
        )
        self.shard = shard


def load_into(log: ShardLog, replica: Replica) -> None:
    """Read a log from its newest snapshot to its end. The replica must be new.

    Raises ArgumentError for the log of a stream, UnreadableShardError, CorruptChunkError, and what
    the store raises.
    """
    snapshot = log.load()
    if snapshot is not None and snapshot.is_frozen:
        raise other_kind(log.shard, "its snapshot is a stream's")
    if snapshot is not None and snapshot.content:
        _apply(log, replica.restore, snapshot.content)
    follow_into(log, replica)


def follow_into(log: ShardLog, replica: Replica) -> None:
    """Read on to the end. Raises as `load_into`."""
    for chunk in log.follow():
        if chunk.responses:
            raise other_kind(log.shard, f"chunk {log.next_index - 1} was written by a stream")
        if chunk.batches:
            _apply(log, replica.replay, chunk.batches)


def _apply(log: ShardLog, apply: Callable[[bytes], None], content: bytes) -> None:
    try:
        apply(content)
    except ReplayError as error:
        raise UnreadableShardError(log.shard, log.next_index, error) from error
