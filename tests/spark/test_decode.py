"""`decode`: rows of the schema of Spark's Kafka source become the columns of `consumer_offsets`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from support import segments

from pykcoord._native import ReplayError, decode_log, decode_rows
from pykcoord.errors import ArgumentError
from pykcoord.log import LogReader

pytest.importorskip("pyspark")
from pykcoord_spark.decoding import decode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Columns of Spark's Kafka source, in its order.
_KAFKA_DDL = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, "
    "timestampType INT"
)


@pytest.fixture
def records(tmp_path: Path) -> pa.RecordBatch:
    """Of a log without transactions, which no consumer is told of."""
    directory = segments.unpack(segments.OWN / "classic-2", tmp_path / "log")
    reader = LogReader.open(directory)
    return decode_log(2, list(reader.read(2)), 0, 2**62)


def test_rows_of_the_kafka_source(spark: SparkSession, records: pa.RecordBatch) -> None:
    table = pa.table(
        {
            "key": records["key"],
            "value": records["value"],
            "topic": pa.array(["__consumer_offsets"] * records.num_rows),
            "partition": records["partition"],
            "offset": records["offset"],
            "timestamp": records["timestamp"].cast(pa.timestamp("ms", "UTC")),
            "timestampType": pa.array([0] * records.num_rows, pa.int32()),
        }
    )
    df = spark.createDataFrame(table, schema=_KAFKA_DDL)
    decoded = decode(df).toArrow().combine_chunks()
    assert decoded.num_rows > 20
    assert decoded.sort_by("offset").to_pylist() == records.to_pylist()


def test_a_record_that_cannot_be_decoded_is_named(records: pa.RecordBatch) -> None:
    rows = records.select(["partition", "offset", "timestamp", "key", "value"])
    keys = [*rows["key"].to_pylist()[:-1], b"\0\1\0\7group"]
    broken = rows.set_column(3, "key", pa.array(keys, pa.binary()))
    with pytest.raises(ReplayError, match="partition 2: ends in the middle of a field") as raised:
        decode_rows(broken)
    assert raised.value.offset == rows["offset"][-1].as_py()


def test_columns_of_another_type_are_refused(records: pa.RecordBatch) -> None:
    rows = records.select(["partition", "offset", "timestamp", "key", "value"])
    with pytest.raises(ValueError, match="column offset is Int32, not Int64"):
        decode_rows(rows.set_column(1, "offset", rows["offset"].cast(pa.int32())))
    with pytest.raises(ValueError, match="rows have five columns"):
        decode_rows(rows.select([0, 1]))
    holes = pa.array([None] * rows.num_rows, pa.int32())
    with pytest.raises(ValueError, match="column partition has nulls"):
        decode_rows(rows.set_column(0, "partition", holes))


def test_a_frame_without_the_columns_is_refused(spark: SparkSession) -> None:
    with pytest.raises(ArgumentError, match="df: column key is missing; there are"):
        decode(spark.createDataFrame([(1,)], "partition INT"))
    wrong = "key BINARY, value BINARY, partition STRING, offset BIGINT, timestamp BIGINT"
    with pytest.raises(ArgumentError, match="column partition is string, not byte or short"):
        decode(spark.createDataFrame([], wrong))


def test_columns_are_chosen_by_name(records: pa.RecordBatch) -> None:
    rows = records.select(["partition", "offset", "timestamp", "key", "value"])
    some = decode_rows(rows, ["committed", "offset", "offset"])
    assert some == records.select(["offset", "committed"])
    for names, said in (([], "no column is asked for"), (["ofset"], "there is no column ofset")):
        with pytest.raises(ValueError, match=said):
            decode_rows(rows, names)
        with pytest.raises(ValueError, match=said):
            decode_log(2, [], 0, 1, names)
