"""The columns of the input and the output of a shard on Spark: as Arrow schemas, and as Spark's
DDL. Plain types only. Spark takes the columns that mapInArrow returns by position, not by name, and
refuses dictionaries. So the schemas are those of `pykcoord.arrow`, and are never repeated in a
query.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from pykcoord.arrow import ENVELOPE, RECORD, REQUEST, RESPONSE
from pykcoord.errors import ArgumentError

__all__ = [
    "ENVELOPE",
    "INTEGER",
    "RECORD",
    "REQUEST",
    "RESPONSE",
    "TIME",
    "Kinds",
    "ddl",
    "refuse_null",
    "require",
    "require_kinds",
    "spark_type",
]


# Arrow's plain types, Spark's, and the names of these in DDL.
_TYPES: dict[pa.DataType, tuple[DataType, str]] = {
    pa.bool_(): (BooleanType(), "BOOLEAN"),
    pa.int8(): (ByteType(), "TINYINT"),
    pa.int16(): (ShortType(), "SMALLINT"),
    pa.int32(): (IntegerType(), "INT"),
    pa.int64(): (LongType(), "BIGINT"),
    pa.string(): (StringType(), "STRING"),
    pa.binary(): (BinaryType(), "BINARY"),
}


def ddl(schema: pa.Schema) -> str:
    """A schema as Spark writes it: what `mapInArrow` takes."""
    return ", ".join(f"{field.name} {_column(field)}" for field in schema)


def spark_type(kind: pa.DataType) -> DataType:
    """Spark's type for one of Arrow's plain ones."""
    return _TYPES[kind][0]


def _column(field: pa.Field) -> str:
    return _name(field.type) + ("" if field.nullable else " NOT NULL")


def _name(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        assert kind.value_field.nullable, "Spark's DDL has no word for elements without NULL"
        return f"ARRAY<{_name(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return f"STRUCT<{', '.join(f'{field.name}: {_column(field)}' for field in kind)}>"
    return _TYPES[kind][1]


def require(df: DataFrame, schema: pa.Schema, argument: str) -> DataFrame:
    """The columns of `schema` out of a table, in its order.

    Raises ArgumentError for `argument` that names what is missing or of another type. Whether
    there are NULLs is not known before the table is read: see `refuse_null`.
    """
    found = {field.name: field.dataType for field in df.schema.fields}
    wrong = list(_wrong(found, schema))
    if wrong:
        raise ArgumentError(argument, "; ".join(wrong))
    return df.select(*schema.names)


def _wrong(found: dict[str, DataType], schema: pa.Schema) -> Iterator[str]:
    missing = [name for name in schema.names if name not in found]
    if missing:
        wanted = ", ".join(f"{name} {_name(schema.field(name).type)}" for name in missing)
        there = ", ".join(found) or "none"
        yield f"has no column {wanted} (its columns: {there})"
    for field in schema:
        kind = found.get(field.name)
        if kind is not None and kind != _TYPES[field.type][0]:
            yield (
                f"column {field.name} is {kind.simpleString().upper()}, not {_name(field.type)}: "
                f"cast it"
            )


# Which types a column may have; the rows are then cast.
Kinds = tuple[type[DataType], ...]
INTEGER: Kinds = (ByteType, ShortType, IntegerType, LongType)
TIME: Kinds = (TimestampType, TimestampNTZType, LongType)


def require_kinds(
    schema: StructType, kinds: Mapping[str, Kinds], *, optional: Container[str] = ()
) -> None:
    """Raises ArgumentError for `df` that names the first column that is missing or of no such
    type."""
    found = {field.name: field.dataType for field in schema.fields}
    for name, allowed in kinds.items():
        if name not in found:
            if name not in optional:
                raise ArgumentError("df", f"column {name} is missing; there are {sorted(found)}")
        elif not isinstance(found[name], allowed):
            wanted = " or ".join(of.typeName() for of in allowed)
            raise ArgumentError("df", f"column {name} is {found[name].typeName()}, not {wanted}")


def refuse_null(batch: pa.RecordBatch, schema: pa.Schema, argument: str) -> None:
    """Raises ArgumentError for `argument` that names the first column with a NULL where none may
    be. Called in the task: Spark itself lets them through."""
    for name in schema.names:
        column = batch.column(name)
        if column.null_count and not schema.field(name).nullable:
            row = column.is_null().index(pa.scalar(True)).as_py()
            others = {
                other: batch.column(other)[row].as_py()
                for other in ("seq", "group_id", "member_id")
                if other in batch.schema.names and other != name
            }
            where = ", ".join(f"{other} {value!r}" for other, value in others.items())
            raise ArgumentError(argument, f"column {name} is NULL in the row with {where}")
