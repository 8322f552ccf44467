"""The columns of `consumer_offsets`, in one place. Equal to `record_schema()` of the native core: a
test says so. Spark matches what a reader returns by position, and checks the first batch alone.
"""

from __future__ import annotations

__all__ = ["DDL", "KAFKA_COLUMNS"]

DDL = (
    "partition INT NOT NULL, offset BIGINT NOT NULL, timestamp BIGINT NOT NULL, "
    "kind STRING NOT NULL, group_id STRING, topic STRING, topic_partition INT, committed BIGINT, "
    "metadata STRING, tombstone BOOLEAN NOT NULL, key BINARY, value BINARY, leader_epoch INT, "
    "generation INT, producer_id BIGINT, producer_epoch INT"
)

# What Spark's own Kafka source gives that is needed to decode a record.
KAFKA_COLUMNS = ("key", "value", "partition", "offset", "timestamp")
