"""`assign`: the partitions of each member, for all groups of a table in one job.

A task gets whole groups, in rows sorted by group and member, and hands them to the native assignor
batch by batch. Nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, IntegerType, MapType, StringType, StructType

from pykcoord.assignors import STRATEGIES
from pykcoord.errors import ArgumentError
from pykcoord_spark.schemas import ddl, refuse_null, require
from pykcoord_spark.tasks import begin_task

__all__ = ["ASSIGNMENT", "MEMBERS", "assign"]

Topics: TypeAlias = Mapping[str, int | Sequence[Sequence[str]]]
_Batches: TypeAlias = Iterator[pa.RecordBatch]

_PARTITION = pa.struct(
    [pa.field("topic", pa.string(), False), pa.field("partition", pa.int32(), False)]
)
# The columns that every row must have, beside `topics`.
MEMBERS = pa.schema(
    [pa.field("group_id", pa.string(), False), pa.field("member_id", pa.string(), False)]
)
# The columns of the result.
ASSIGNMENT = MEMBERS.append(
    pa.field("partitions", pa.list_(pa.field("element", _PARTITION)), False)
)
_OWNED = "owned_partitions"
_OPTIONAL = pa.schema(
    [
        pa.field("generation_id", pa.int32()),
        pa.field("rack_id", pa.string()),
        pa.field("group_instance_id", pa.string()),
        pa.field("user_data", pa.binary()),
    ]
)


def assign(members: DataFrame, strategy: str, topics: Topics | None = None) -> DataFrame:
    """A table of assignments (`group_id`, `member_id`, `partitions`) for a table of members.

    `members` has a row for each member of each group: `group_id`, `member_id` and `topics`, either
    a list of names, whose numbers of partitions (or racks of each) are in the argument `topics`,
    or a map of names to numbers of partitions. A topic that is not in `topics` does not exist. As
    they apply, `owned_partitions` (of the type of `partitions`: what the member held last),
    `generation_id` (since when), `rack_id`, `group_instance_id` and `user_data` (which "sticky"
    prefers to `owned_partitions`); other columns are passed over.

    `strategy` is one of `pykcoord.assignors.STRATEGIES`. The result is that of `pykcoord.assign`
    for each group with its members in the order of their ids (by code point).

    Raises ArgumentError for a strategy that is not known and for columns that are missing or of
    another type; the job fails with one that names column or group for NULLs, a member that
    is there twice, and numbers of partitions that differ within a group.
    """
    if strategy not in STRATEGIES:
        names = ", ".join(STRATEGIES)
        raise ArgumentError("strategy", f"{strategy!r} is none of {names}")
    table = _columns(members, topics)
    whole_groups = table.repartition("group_id").sortWithinPartitions("group_id", "member_id")
    run = _assigned(strategy, dict(topics or {}))
    return whole_groups.mapInArrow(run, ddl(ASSIGNMENT))


def _columns(members: DataFrame, topics: Topics | None) -> DataFrame:
    """The columns that are known, once their types are sure."""
    require(members, MEMBERS, "members")
    found = {field.name: field.dataType for field in members.schema.fields}
    there = pa.schema(field for field in _OPTIONAL if field.name in found)
    require(members, there, "members")
    match found.get("topics"):
        case ArrayType(elementType=StringType()) if topics is not None:
            pass
        case ArrayType(elementType=StringType()):
            reason = "is None, and the column topics has no numbers of partitions (a map has)"
            raise ArgumentError("topics", reason)
        case MapType(keyType=StringType(), valueType=IntegerType()) if topics is None:
            pass
        case MapType(keyType=StringType(), valueType=IntegerType()):
            raise ArgumentError("topics", "is given, and the column topics is a map with numbers")
        case None:
            raise ArgumentError("members", "has no column topics ARRAY<STRING> or MAP<STRING, INT>")
        case other:
            reason = f"column topics is {other.simpleString().upper()}, not ARRAY<STRING> or "
            raise ArgumentError("members", reason + "MAP<STRING, INT>")
    names = [*MEMBERS.names, "topics", *there.names]
    if _OWNED in found:
        _require_owned(found[_OWNED])
        names.append(_OWNED)
    return members.select(*names)


def _require_owned(kind: object) -> None:
    match kind:
        case ArrayType(elementType=StructType(fields=[topic, partition])):
            there = (topic.name, topic.dataType, partition.name, partition.dataType)
            if there == ("topic", StringType(), "partition", IntegerType()):
                return
    wanted = "ARRAY<STRUCT<topic: STRING, partition: INT>>"
    found = kind.simpleString().upper() if hasattr(kind, "simpleString") else kind
    raise ArgumentError("members", f"column {_OWNED} is {found}, not {wanted}")


def _assigned(strategy: str, topics: dict[str, object]) -> Callable[[_Batches], _Batches]:
    def run(batches: _Batches) -> _Batches:
        from pykcoord.assignors import BulkAssignor

        begin_task()
        assignor = BulkAssignor(strategy, topics)
        for groups in whole_groups(batches):
            yield from assignor.assign(groups)

    return run


def whole_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows, cut where a group ends: the last group of a batch waits for the next batch."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        if not batch.num_rows:
            continue
        refuse_null(batch, MEMBERS, "members")
        groups = batch.column("group_id")
        start = groups.index(groups[batch.num_rows - 1]).as_py()
        continues = waiting and waiting[-1].column("group_id")[-1] == groups[batch.num_rows - 1]
        if start or not continues:
            yield from _joined([*waiting, batch.slice(0, start)])
            waiting = []
        waiting.append(batch.slice(start))
    yield from _joined(waiting)


def _joined(parts: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    parts = [part for part in parts if part.num_rows]
    if parts:
        yield parts[0] if len(parts) == 1 else pa.concat_batches(parts)
