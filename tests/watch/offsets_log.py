"""Batches of `__consumer_offsets` that commit offsets, for scripted brokers."""

from __future__ import annotations

import dataclasses
import struct

from support.batches import data
from support.scripted_broker import ScriptedPartition


def _text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack(">h", len(raw)) + raw


def commit(
    partition: ScriptedPartition,
    group: str,
    offset: int,
    *,
    topic: str = "orders",
    at: int = 0,
    key: bytes | None = None,
) -> None:
    """Appends a batch of one record under the partition's leader epoch."""
    key = key or struct.pack(">h", 1) + _text(group) + _text(topic) + struct.pack(">i", at)
    value = struct.pack(">hqi", 3, offset, -1) + _text("") + struct.pack(">q", 1_000)
    batch = dataclasses.replace(
        data(partition.end, [(key, value)]), leader_epoch=partition.leader_epoch
    )
    partition.batches.append(batch.encode())
