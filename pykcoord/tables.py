"""Arrow in and out of a coordinator: everything it knows as tables, commits from batches.

The only module that imports pyarrow, and only when it is asked for Arrow.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from kio.schema.offset_commit.v9.request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i32, i64

from pykcoord.arrow import arrow_library
from pykcoord.errors import ArgumentError
from pykcoord.topic_ids import id_text

if TYPE_CHECKING:
    import pyarrow

    from pykcoord._native import Node

__all__ = ["Commits", "as_list", "commits_of", "groups", "heartbeats", "members", "offsets"]

# Arrow type and default; without a default the column must be there.
_COMMIT_COLUMNS: dict[str, tuple[str, Any]] = {
    "group_id": ("string", None),
    "topic": ("string", None),
    "partition": ("int32", None),
    "offset": ("int64", None),
    "leader_epoch": ("int32", -1),
    "metadata": ("string", ""),
    "member_id": ("string", ""),
    "generation_id": ("int32", -1),
}


def as_list(column: Any) -> list[Any]:
    """A sequence or an Arrow array as a list."""
    return column.to_pylist() if hasattr(column, "to_pylist") else list(column)


def heartbeats(node: Node, now_ms: int, *columns: list[Any]) -> array[int]:
    """Kafka's error codes of heartbeats, from columns of groups, members and generations."""
    try:
        answered = node.heartbeat_many(now_ms, *columns)
    except (OverflowError, TypeError, ValueError) as error:
        raise ArgumentError("groups, members, generations", str(error)) from error
    codes = array("h")
    codes.frombytes(answered)
    return codes


class Commits:
    """The rows of a batch as OffsetCommit requests: one for each group, member and generation."""

    def __init__(self, columns: dict[str, list[Any]]) -> None:
        self.requests: list[OffsetCommitRequest] = []
        self._topics = columns["topic"]
        self._partitions = columns["partition"]
        self._rows: list[list[int]] = []
        by_member: dict[tuple[str, str, int], list[int]] = {}
        keys = zip(columns["group_id"], columns["member_id"], columns["generation_id"], strict=True)
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
    """The commits of a batch; raises ArgumentError for a column that is missing, has nulls, or
    has another type or values beyond it."""
    pa = arrow_library()
    if not isinstance(batch, pa.RecordBatch | pa.Table):
        reason = f"a pyarrow.Table or RecordBatch, not {type(batch).__name__}"
        raise ArgumentError("batch", reason)
    columns: dict[str, list[Any]] = {}
    names = set(batch.schema.names)
    for name, (type_name, default) in _COMMIT_COLUMNS.items():
        if name in names:
            columns[name] = _column(batch, name, type_name)
        elif default is None:
            raise ArgumentError("batch", f"no column {name!r}; it has {sorted(names)}")
        else:
            columns[name] = [default] * batch.num_rows
    return Commits(columns)


def _column(batch: pyarrow.RecordBatch | pyarrow.Table, name: str, type_name: str) -> list[Any]:
    pa = arrow_library()
    column = batch.column(name)
    if column.null_count:
        raise ArgumentError("batch", f"column {name!r} has {column.null_count} nulls")
    found = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    types = pa.types
    fits = (
        types.is_string(found) or types.is_large_string(found) or types.is_string_view(found)
        if type_name == "string"
        else types.is_integer(found)
    )
    # An empty list of anything is as good as one of the right type.
    if not fits and len(column):
        raise ArgumentError("batch", f"column {name!r} is of {column.type}, not {type_name}")
    try:
        values: list[Any] = column.cast(type_name).to_pylist()
    except pa.ArrowInvalid as error:
        raise ArgumentError("batch", f"column {name!r}: {error}") from error
    return values


def groups(rows: list[tuple[Any, ...]]) -> pyarrow.Table:
    """`Node.groups` rows as a table, one row a group. What only consumer groups have is NULL in
    others."""
    pa = arrow_library()
    schema = pa.schema(
        [
            ("group_id", pa.string()),
            ("type", pa.string()),
            ("state", pa.string()),
            ("protocol_type", pa.string()),
            ("protocol", pa.string()),
            ("generation_id", pa.int32()),
            ("leader", pa.string()),
            ("members", pa.int32()),
            ("group_epoch", pa.int32()),
            ("assignment_epoch", pa.int32()),
            ("assignment_timestamp", pa.int64()),
            ("assignor", pa.string()),
        ]
    )
    names = ("group_epoch", "assignment_epoch", "assignment_timestamp_ms", "assignor_name")
    picked = []
    for row in rows:
        group, kind, state, protocol_type, generation, protocol, leader, _, members, of = row
        consumer = (None,) * len(names) if of is None else tuple(map(of.get, names))
        classic = (group, kind, state, protocol_type, protocol, generation, leader, len(members))
        picked.append((*classic, *consumer))
    return _table(schema, picked)


# Of members of consumer groups: the names of `Node.groups`.
_CONSUMER_COLUMNS = (
    "member_epoch", "previous_member_epoch", "state", "member_type", "rack_id",
    "subscribed_topic_names", "subscribed_topic_regex", "server_assignor", "assigned",
    "pending_revocation", "target",
)  # fmt: skip
_MEMBER_TYPES = ("classic", "consumer")


def members(rows: list[tuple[Any, ...]], topic_names: Mapping[bytes, str]) -> pyarrow.Table:
    """`Node.groups` rows as a table, one row a member. What only members of consumer groups have
    is NULL in others, and there `subscription` and `assignment` are. `topic_names`: by topic id."""
    pa = arrow_library()
    topics = pa.list_(
        pa.struct(
            [
                ("topic_id", pa.string()),
                ("topic", pa.string()),
                ("partitions", pa.list_(pa.int32())),
            ]
        )
    )
    schema = pa.schema(
        [
            ("group_id", pa.string()),
            ("member_id", pa.string()),
            ("group_instance_id", pa.string()),
            ("client_id", pa.string()),
            ("client_host", pa.string()),
            ("rebalance_timeout_ms", pa.int32()),
            ("session_timeout_ms", pa.int32()),
            ("subscription", pa.binary()),
            ("assignment", pa.binary()),
            ("member_epoch", pa.int32()),
            ("previous_member_epoch", pa.int32()),
            ("member_state", pa.string()),
            ("member_type", pa.string()),
            ("rack_id", pa.string()),
            ("subscribed_topic_names", pa.list_(pa.string())),
            ("subscribed_topic_regex", pa.string()),
            ("server_assignor", pa.string()),
            ("assigned_partitions", topics),
            ("partitions_pending_revocation", topics),
            ("target_partitions", topics),
        ]
    )
    return _table(schema, [_member(row[0], each, topic_names) for row in rows for each in row[8]])


def _member(
    group_id: str, member: tuple[Any, ...], topic_names: Mapping[bytes, str]
) -> tuple[Any, ...]:
    *common, subscription, assignment, of = member
    if of is None:
        nothing = (None,) * len(_CONSUMER_COLUMNS)
        return (group_id, *common, subscription, assignment, *nothing)
    fields = {name: of[name] for name in _CONSUMER_COLUMNS}
    fields["member_type"] = _MEMBER_TYPES[of["member_type"]]
    for name in ("assigned", "pending_revocation", "target"):
        fields[name] = [
            {
                "topic_id": id_text(UUID(bytes=topic_id)),
                "topic": topic_names.get(topic_id),
                "partitions": partitions,
            }
            for topic_id, partitions in of[name]
        ]
    return (group_id, *common, None, None, *fields.values())


def offsets(rows: list[tuple[Any, ...]]) -> pyarrow.Table:
    """`Node.offsets` rows as a table."""
    pa = arrow_library()
    schema = pa.schema(
        [
            ("group_id", pa.string()),
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
    pa = arrow_library()
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
