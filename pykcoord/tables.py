"""Arrow in and out of a coordinator: everything it knows as tables, commits from batches.

The only module that imports pyarrow, and only when it is asked for Arrow.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from kio.schema.offset_commit.v9.request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i32, i64

from pykcoord.errors import ArgumentError

if TYPE_CHECKING:
    import pyarrow

__all__ = ["Commits", "as_list", "commits_of", "groups", "members", "offsets"]

_COMMIT_COLUMNS = ("group", "topic", "partition", "offset")
_COMMIT_DEFAULTS: dict[str, Any] = {
    "leader_epoch": -1,
    "metadata": "",
    "member": "",
    "generation": -1,
}


def as_list(column: Any) -> list[Any]:
    """A sequence or an Arrow array as a list."""
    return column.to_pylist() if hasattr(column, "to_pylist") else list(column)


class Commits:
    """The rows of a batch as OffsetCommit requests: one for each group, member and generation."""

    def __init__(self, columns: dict[str, list[Any]]) -> None:
        self.requests: list[OffsetCommitRequest] = []
        self._topics = columns["topic"]
        self._partitions = columns["partition"]
        self._rows: list[list[int]] = []
        by_member: dict[tuple[str, str, int], list[int]] = {}
        keys = zip(columns["group"], columns["member"], columns["generation"], strict=True)
        for row, key in enumerate(keys):
            by_member.setdefault(key, []).append(row)
        for (group, member, generation), rows in by_member.items():
            by_topic: dict[str, list[OffsetCommitRequestPartition]] = {}
            for row in rows:
                by_topic.setdefault(self._topics[row], []).append(_partition(columns, row))
            request = OffsetCommitRequest(
                group_id=GroupId(group),
                generation_id_or_member_epoch=i32(generation),
                member_id=member,
                topics=tuple(
                    OffsetCommitRequestTopic(name=TopicName(topic), partitions=tuple(partitions))
                    for topic, partitions in by_topic.items()
                ),
            )
            self.requests.append(request)
            self._rows.append(rows)

    def codes(self, responses: Iterable[Any]) -> Sequence[int]:
        """Kafka's error codes in the order of the rows, from the responses to `requests`."""
        codes = array("h", bytes(2 * len(self._topics)))
        for rows, response in zip(self._rows, responses, strict=True):
            answered = {
                (topic.name, partition.partition_index): int(partition.error_code.value)
                for topic in response.topics
                for partition in topic.partitions
            }
            for row in rows:
                codes[row] = answered[self._topics[row], self._partitions[row]]
        return codes


def commits_of(batch: pyarrow.RecordBatch | pyarrow.Table) -> Commits:
    """The commits of a batch; raises ArgumentError for a column that is missing or has nulls."""
    columns: dict[str, list[Any]] = {}
    names = set(batch.schema.names)
    for name in _COMMIT_COLUMNS:
        if name not in names:
            raise ArgumentError("batch", f"no column {name!r}; it has {sorted(names)}")
    for name in (*_COMMIT_COLUMNS, *_COMMIT_DEFAULTS):
        if name not in names:
            columns[name] = [_COMMIT_DEFAULTS[name]] * batch.num_rows
            continue
        column = batch.column(name)
        if column.null_count:
            raise ArgumentError("batch", f"column {name!r} has {column.null_count} nulls")
        columns[name] = column.to_pylist()
    return Commits(columns)


def groups(rows: list[tuple[Any, ...]]) -> pyarrow.Table:
    """`Node.groups` rows as a table, one row a group."""
    import pyarrow as pa

    schema = pa.schema(
        [
            ("group", pa.string()),
            ("type", pa.string()),
            ("state", pa.string()),
            ("protocol_type", pa.string()),
            ("protocol", pa.string()),
            ("generation", pa.int32()),
            ("leader", pa.string()),
            ("members", pa.int32()),
        ]
    )
    picked = [
        (group, kind, state, protocol_type, protocol, generation, leader, len(members))
        for group, kind, state, protocol_type, generation, protocol, leader, _, members in rows
    ]
    return _table(schema, picked)


def members(rows: list[tuple[Any, ...]]) -> pyarrow.Table:
    """`Node.groups` rows as a table, one row a member."""
    import pyarrow as pa

    schema = pa.schema(
        [
            ("group", pa.string()),
            ("member", pa.string()),
            ("instance", pa.string()),
            ("client_id", pa.string()),
            ("client_host", pa.string()),
            ("rebalance_timeout_ms", pa.int32()),
            ("session_timeout_ms", pa.int32()),
            ("subscription", pa.binary()),
            ("assignment", pa.binary()),
        ]
    )
    return _table(schema, [(row[0], *member) for row in rows for member in row[-1]])


def offsets(rows: list[tuple[Any, ...]]) -> pyarrow.Table:
    """`Node.offsets` rows as a table."""
    import pyarrow as pa

    schema = pa.schema(
        [
            ("group", pa.string()),
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("leader_epoch", pa.int32()),
            ("metadata", pa.string()),
            ("commit_timestamp", pa.int64()),
            ("expire_timestamp", pa.int64()),
        ]
    )
    return _table(schema, [row[:8] for row in rows])


def _table(schema: pyarrow.Schema, rows: list[tuple[Any, ...]]) -> pyarrow.Table:
    import pyarrow as pa

    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _partition(columns: dict[str, list[Any]], row: int) -> OffsetCommitRequestPartition:
    return OffsetCommitRequestPartition(
        partition_index=i32(columns["partition"][row]),
        committed_offset=i64(columns["offset"][row]),
        committed_leader_epoch=i32(columns["leader_epoch"][row]),
        committed_metadata=columns["metadata"][row],
    )
