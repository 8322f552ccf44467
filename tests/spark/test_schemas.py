"""Columns: Spark's are Arrow's, and errors name the column of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")
import pyarrow as pa
from pykcoord_spark.schemas import ENVELOPE, RECORD, REQUEST, RESPONSE, ddl, refuse_null, require
from pyspark.sql.pandas.types import to_arrow_schema

from pykcoord.errors import ArgumentError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMAS = {"request": REQUEST, "response": RESPONSE, "record": RECORD, "envelope": ENVELOPE}


@pytest.mark.parametrize("name", SCHEMAS)
def test_ddl_is_what_arrow_has(name: str, spark: SparkSession) -> None:
    empty = spark.createDataFrame([], ddl(SCHEMAS[name]))
    assert to_arrow_schema(empty.schema) == SCHEMAS[name]


def test_missing_and_wrong_columns_are_named_at_once(spark: SparkSession) -> None:
    events = spark.createDataFrame([], ddl(REQUEST))
    assert require(events.withColumn("more", events.ts), REQUEST, "events").columns == REQUEST.names
    bad = events.drop("group_id").withColumn("ts", events.ts.cast("string"))
    with pytest.raises(ArgumentError) as refused:
        require(bad, REQUEST, "events")
    said = str(refused.value)
    assert said.startswith("events: has no column group_id STRING")
    assert "column ts is STRING, not BIGINT: cast it" in said


def test_a_null_is_named_with_its_row() -> None:
    column = {"seq": [1, 2], "group_id": ["a", None]}
    schema = pa.schema([REQUEST.field("seq"), REQUEST.field("group_id")])
    batch = pa.RecordBatch.from_pydict(
        column, pa.schema([("seq", pa.int64()), ("group_id", pa.string())])
    )
    with pytest.raises(
        ArgumentError, match="events: column group_id is NULL in the row with seq 2"
    ):
        refuse_null(batch, schema, "events")
    refuse_null(batch.slice(0, 1), schema, "events")
