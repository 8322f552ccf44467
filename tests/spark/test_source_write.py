"""`df.write.format("consumer_offsets")`: a new directory, whole or not at all, that gives the
same rows again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from support import segments

from pykcoord._native import decode_log
from pykcoord.errors import ArgumentError
from pykcoord.log import LogReader, partitions_of, verify

pytest.importorskip("pyspark")
from pykcoord_spark.source import ConsumerOffsets
from pykcoord_spark.source.options import Options
from pykcoord_spark.source.schema import DDL
from pykcoord_spark.source.writer import DirectoryWriter
from pykcoord_spark.source.writing import Segments, normalized
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    IntegerType,
    LongType,
    StringType,
    StructType,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# `StructType.fromDDL` needs a session.
_TYPES = {
    "INT": IntegerType(),
    "BIGINT": LongType(),
    "STRING": StringType(),
    "BOOLEAN": BooleanType(),
    "BINARY": BinaryType(),
}
_COLUMNS = ("partition", "offset", "timestamp", "key", "value", "producer_id", "producer_epoch")


def _rows_of(directory: Path) -> list[dict[str, Any]]:
    reader = LogReader.open(directory)
    tables = [
        pa.Table.from_batches([decode_log(number, list(reader.read(number)), 0, 2**62)])
        for number in reader.partitions
    ]
    return pa.concat_tables(tables).select(_COLUMNS).to_pylist()


def _writer(path: Path, ddl: str = DDL, overwrite: bool = False, **more: str) -> DirectoryWriter:
    schema = StructType()
    for name, of in (column.split()[:2] for column in ddl.split(", ")):
        schema.add(name, _TYPES[of])
    return DirectoryWriter(
        Options.parse({"path": str(path), **more}, writing=True), schema, overwrite
    )


def _batch(partition: int = 1, offsets: tuple[int, ...] = (0, 1), **more: Any) -> pa.RecordBatch:
    count = len(offsets)
    columns = {
        "partition": pa.array([partition] * count, pa.int32()),
        "offset": pa.array(offsets, pa.int64()),
        "timestamp": pa.array([1000] * count, pa.int64()),
        "key": pa.array([b"\0\2\0\1g"] * count, pa.binary()),
        "value": pa.array([None] * count, pa.binary()),
    }
    return pa.RecordBatch.from_pydict(columns | more)


_SCENARIOS = ["transactions-1", "compacted-1", "zstd-1"]


def _check_written(source: Path, target: Path) -> None:
    assert verify(target).sound
    assert _rows_of(target) == _rows_of(source) != []
    assert partitions_of(target) == 50
    assert {path.name for path in target.parent.iterdir()} == {source.name, target.name}


@pytest.mark.parametrize("scenario", _SCENARIOS)
def test_what_is_written_is_read_again(scenario: str, tmp_path: Path) -> None:
    """Offsets with gaps, transactions and their markers as they were; a task of each partition."""
    source = segments.unpack(segments.OWN / scenario, tmp_path / "source")
    reader = ConsumerOffsets({"path": str(source)}).reader(StructType())
    writer = _writer(tmp_path / "target")
    writer.commit([writer.write(reader.read(part)) for part in reader.partitions()])
    _check_written(source, tmp_path / "target")


@pytest.mark.parametrize(
    "scenario",
    [_SCENARIOS[0], *(pytest.param(of, marks=pytest.mark.spark_all) for of in _SCENARIOS[1:])],
)
def test_spark_writes_what_it_reads(spark: SparkSession, scenario: str, tmp_path: Path) -> None:
    source = segments.unpack(segments.OWN / scenario, tmp_path / "source")
    rows = spark.read.format("consumer_offsets").load(str(source))
    ordered = rows.repartition("partition").sortWithinPartitions("partition", "offset")
    target = tmp_path / "target"
    ordered.write.format("consumer_offsets").mode("append").save(str(target))
    _check_written(source, target)


def test_rows_without_offsets_are_numbered(tmp_path: Path) -> None:
    writer = _writer(tmp_path / "new", offsets_topic_partitions="3", segment_bytes="200")
    batches = [_batch(2).drop_columns("offset") for _ in range(4)]
    writer.commit([writer.write(iter(batches)), writer.write(iter([]))])
    assert [row["offset"] for row in _rows_of(tmp_path / "new")] == list(range(8))
    assert partitions_of(tmp_path / "new") == 3
    assert len(list((tmp_path / "new").glob("__consumer_offsets-2/*.log"))) > 1
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def test_one_partition_in_two_tasks_is_refused(tmp_path: Path) -> None:
    writer = _writer(tmp_path / "new")
    messages = [writer.write(iter([_batch(4)])), writer.write(iter([_batch(4, (2, 3))]))]
    with pytest.raises(ArgumentError, match="rows of partition 4 came to several tasks"):
        writer.commit(messages)
    writer.abort(messages)
    assert list(tmp_path.iterdir()) == []


def test_what_a_failed_attempt_left_is_removed(tmp_path: Path) -> None:
    writer = _writer(tmp_path / "new")
    writer.write(iter([_batch(4)]))  # its task was run again
    writer.commit([writer.write(iter([_batch(4)]))])
    assert len(_rows_of(tmp_path / "new")) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def test_offsets_out_of_order_are_refused(tmp_path: Path) -> None:
    rows = Segments(tmp_path / "1", 1, 1 << 20)
    rows.append(normalized(_batch(1, (3, 5))))
    with pytest.raises(ArgumentError, match="partition 1: offset 5 comes when 6 or more is due"):
        rows.append(normalized(_batch(1, (5, 6))))


@pytest.mark.parametrize(
    ("ddl", "said"),
    [
        ("partition INT, timestamp BIGINT, key BINARY", "column value is missing"),
        ("partition INT, timestamp STRING, key BINARY, value BINARY", "timestamp is string, not"),
    ],
)
def test_columns_that_are_not_right_are_named(tmp_path: Path, ddl: str, said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        _writer(tmp_path / "new", ddl)


def test_a_directory_that_holds_something_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ArgumentError, match=r"option path: .* is not empty"):
        _writer(tmp_path)
    with pytest.raises(ArgumentError, match="mode: overwrite is not supported"):
        _writer(tmp_path / "new", overwrite=True)


def test_rows_that_cannot_be_written_are_named(tmp_path: Path) -> None:
    writer = _writer(tmp_path / "new", offsets_topic_partitions="3")
    with pytest.raises(ArgumentError, match="partition 3 is not one of 3"):
        writer.write(iter([_batch(3)]))
    holes = pa.array([b"\0\2\0\1g", None], pa.binary())
    with pytest.raises(ArgumentError, match="column key has nulls"):
        writer.write(iter([_batch(1, key=holes)]))


def test_offsets_far_apart_are_written(tmp_path: Path) -> None:
    """A batch, as a segment, holds offsets of 32 bits above its first."""
    far = 2**31 - 1
    offsets = (5, 5 + far, 6 + far, 3_000_000_000, 2**40, 2**40 + 1)
    writer = _writer(tmp_path / "new")
    writer.commit([writer.write(iter([_batch(1, offsets)]))])
    assert tuple(row["offset"] for row in _rows_of(tmp_path / "new")) == offsets
    assert verify(tmp_path / "new").sound
    assert len(list((tmp_path / "new").glob("__consumer_offsets-1/*.log"))) == 3


@pytest.mark.parametrize(
    ("column", "most"), [("partition", 2**31 - 1), ("producer_epoch", 2**15 - 1)]
)
def test_numbers_that_kafka_has_no_room_for_are_named(column: str, most: int) -> None:
    def wide(value: int) -> pa.RecordBatch:
        batch = _batch().drop_columns("partition") if column == "partition" else _batch()
        return batch.append_column(column, pa.array([0, value], pa.int64()))

    assert normalized(wide(most))[column].to_pylist() == [0, most]
    with pytest.raises(ArgumentError, match=f"df: column {column}: .*{most + 1} not in range"):
        normalized(wide(most + 1))
