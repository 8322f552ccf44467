"""Ends of transactions, as a shard gives them to its log."""

from __future__ import annotations

from support.batches import marker

from pykcoord.log.protocol import Append

_HEADER_BYTES = 61


def end_marker(
    offset: int,
    producer: tuple[int, int],
    kind: int,
    *,
    coordinator_epoch: int,
    at_ms: int = 1_000,
) -> Append:
    """The end (0: abort, 1: commit) of a producer's (id, epoch) transaction."""
    batch = marker(offset, producer[0], kind, at_ms, coordinator_epoch)
    records = batch.encode()[_HEADER_BYTES:]
    return Append(0, offset, 1, at_ms, at_ms, records, *producer, is_marker=True)
