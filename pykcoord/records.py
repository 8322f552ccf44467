"""The records of `__consumer_offsets` as Arrow columns and back, and where those of a group are.

`record_schema()` says which columns there are. `decode_log` makes rows of chunks of the log,
`decode_rows` of keys and values that somebody else has read, and `encode_records` makes the records
area of a batch of rows. All four want `pyarrow`. `partition_of(group_id, partitions)` is the
partition in which the records of a group are, as Kafka computes it: its shard.
"""

from __future__ import annotations

from pykcoord._native import (
    ReplayError,
    decode_log,
    decode_rows,
    encode_records,
    partition_of,
    record_schema,
)

__all__ = [
    "ReplayError",
    "decode_log",
    "decode_rows",
    "encode_records",
    "partition_of",
    "record_schema",
]
