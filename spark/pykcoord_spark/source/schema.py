"""The columns of `consumer_offsets`, in one place. Equal to `record_schema()` of the native core: a
test says so. Spark matches what a reader returns by position, and checks the first batch alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pyarrow as pa

from pykcoord.errors import ArgumentError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = ["DDL", "MARKERS", "columns_of", "ddl_of"]

DDL = (
    "partition INT NOT NULL, offset BIGINT NOT NULL, timestamp BIGINT NOT NULL, "
    "kind STRING NOT NULL, group_id STRING, topic STRING, topic_partition INT, committed BIGINT, "
    "metadata STRING, tombstone BOOLEAN NOT NULL, key BINARY, value BINARY, leader_epoch INT, "
    "generation INT, producer_id BIGINT, producer_epoch INT"
)
# The kinds of the records that end transactions: of no group, and needed to judge those of each.
MARKERS = ("COMMIT", "ABORT")


def ddl_of(names: Iterable[str]) -> str:
    """Some of the columns, as Spark writes them."""
    by_name = {column.split()[0]: column for column in DDL.split(", ")}
    return ", ".join(by_name[name] for name in names)


def columns_of(schema: StructType) -> pa.Schema | None:
    """The columns that a reader is to give: Spark asks for all of them, or for those that the user
    named with `.schema(...)`; None where it names none. Raises ArgumentError for one that there is
    not, or not so."""
    from pykcoord.records import record_schema
    from pykcoord_spark.schemas import spark_type

    known = record_schema()
    fields = []
    for asked in schema.fields:
        if asked.name not in known.names:
            there = ", ".join(known.names)
            raise ArgumentError("schema", f"there is no column {asked.name}; there are {there}")
        field = known.field(asked.name)
        if asked.dataType != spark_type(field.type):
            wanted = spark_type(field.type).simpleString().upper()
            found = asked.dataType.simpleString().upper()
            raise ArgumentError("schema", f"column {asked.name} is {wanted}, not {found}")
        if field.nullable and not asked.nullable:
            raise ArgumentError("schema", f"column {asked.name} has NULLs: leave out NOT NULL")
        fields.append(field.with_nullable(asked.nullable))
    return pa.schema(fields) if fields else None
