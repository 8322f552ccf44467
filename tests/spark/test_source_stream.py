"""`spark.readStream.format("consumer_offsets")` on a directory that is written to, and the ends of
micro-batches."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support import batches

from pykcoord.errors import ArgumentError, CorruptLogError

pytest.importorskip("pyspark")
from pykcoord_spark.source import ConsumerOffsets
from pykcoord_spark.source.options import Options
from pykcoord_spark.source.rows import rows_of_chunks
from pykcoord_spark.source.stream import DirectoryStream, limited
from pyspark.sql.types import LongType, StructField, StructType

from pykcoord.log import PartitionEnds, read_slice

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_KEY = b"\0\1\0\1g\0\1t\0\0\0\1"


def _value(offset: int) -> bytes:
    return b"\0\3" + offset.to_bytes(8, "big") + b"\0\0\0\1\0\0" + b"\0" * 8


def _append(folder: Path, offsets: Sequence[int], segment: int = 0) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for offset in offsets:
        batch = batches.data(offset, [(_KEY, _value(offset))])
        with open(folder / f"{segment:020d}.log", "ab") as file:
            file.write(batch.encode())


def _read(folder: Path, start: int, end: int) -> list[int]:
    chunks = read_slice(folder, start, end, "refuse")
    rows = rows_of_chunks(folder, 0, chunks, Options(), start, end)
    return [row["offset"] for batch in rows for row in batch.to_pylist()]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "__consumer_offsets-0"


def test_the_end_moves_as_batches_arrive(folder: Path) -> None:
    ends = PartitionEnds("refuse")
    _append(folder, range(5))
    assert ends.of(folder) == (0, 5)
    _append(folder, range(5, 9))
    assert ends.of(folder) == (0, 9)
    _append(folder, range(9, 12), segment=9)
    assert ends.of(folder) == (0, 12)


def test_half_a_batch_is_not_there_yet(folder: Path) -> None:
    _append(folder, range(3))
    whole = batches.data(3, [(_KEY, _value(3))]).encode()
    file = folder / f"{0:020d}.log"
    ends = PartitionEnds("refuse")
    with file.open("ab") as out:
        out.write(whole[:30])
    assert ends.of(folder) == (0, 3)
    with file.open("ab") as out:
        out.write(whole[30:])
    assert ends.of(folder) == (0, 4)


def test_damage_before_sound_batches_is_refused(folder: Path) -> None:
    _append(folder, range(9))
    file = folder / f"{0:020d}.log"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(CorruptLogError, match=str(file)):
        PartitionEnds("refuse").of(folder)
    assert PartitionEnds("truncate").of(folder) == (0, 4)
    with pytest.raises(CorruptLogError, match=str(file)):
        _read(folder, 0, 9)


def test_a_slice_is_read_across_segments_and_gaps(folder: Path) -> None:
    _append(folder, [0, 1, 3])
    _append(folder, [4, 7, 8], segment=4)
    _append(folder, [9, 10], segment=9)
    assert _read(folder, 0, 11) == [0, 1, 3, 4, 7, 8, 9, 10]
    assert _read(folder, 2, 8) == [3, 4, 7]
    assert _read(folder, 5, 7) == []
    assert _read(folder, 10, 11) == [10]


def test_a_micro_batch_is_at_most_so_many_offsets() -> None:
    bounds = {0: (0, 100), 1: (50, 60), 2: (7, 7)}
    assert limited({}, bounds, None) == {"0": 100, "1": 60, "2": 7}
    start: dict[str, int] = {"0": 0, "1": 50, "2": 7}
    for _ in range(40):
        end = limited(start, bounds, 11)
        taken = sum(end[name] - start[name] for name in start)
        assert all(end[name] >= start[name] for name in start)
        assert 0 < taken <= 11 or end == start
        start = end
    assert start == {"0": 100, "1": 60, "2": 7}
    assert limited({"0": 120, "9": 3}, bounds, None) == {"0": 120, "1": 60, "2": 7, "9": 3}


def test_available_now_does_not_go_past_what_was_there(folder: Path) -> None:
    _append(folder, range(5))
    stream = DirectoryStream(Options.parse({"path": str(folder.parent)}, streaming=True))
    assert stream.initialOffset() == {"0": 0}
    stream.prepareForTriggerAvailableNow()
    _append(folder, range(5, 9))
    assert stream.latestOffset({"0": 0}, stream.getDefaultReadLimit()) == {"0": 5}
    latest = {"path": str(folder.parent), "starting_offsets": "latest"}
    assert DirectoryStream(Options.parse(latest, streaming=True)).initialOffset() == {"0": 9}


def test_a_stream_goes_on_where_it_was(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    def run() -> list[tuple[int, int]]:
        stream = (
            spark.readStream.format("consumer_offsets")
            .option("max_records_per_trigger", "4")
            .load(str(folder.parent))
        )
        query = (
            stream.writeStream.format("parquet")
            .option("path", str(tmp_path / "out"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        written = spark.read.parquet(str(tmp_path / "out"))
        return sorted((row.offset, row.committed) for row in written.collect())

    _append(folder, range(7))
    assert run() == [(n, n) for n in range(7)]
    _append(folder, range(7, 9))
    _append(folder, range(9, 12), segment=9)
    assert run() == [(n, n) for n in range(12)]


def test_small_slices_share_a_task(tmp_path: Path) -> None:
    for number in range(4):
        _append(tmp_path / f"__consumer_offsets-{number}", range(10 + number))

    def tasks(**options: str) -> list[list[int]]:
        source = ConsumerOffsets({"path": str(tmp_path), **options})
        stream = source.streamReader(StructType([StructField("offset", LongType())]))
        end = stream.latestOffset({}, stream.getDefaultReadLimit())
        parts = stream.partitions({"1": 11, "3": 12}, end)
        return [[row for batch in stream.read(part) for row in batch["offset"].to_pylist()]
                for part in parts]  # fmt: skip

    first, third, fourth = list(range(10)), list(range(12)), [12]
    assert tasks() == [first + third + fourth]
    assert tasks(task_bytes="2000") == [first, third + fourth]


def test_a_stream_of_some_columns(folder: Path) -> None:
    """The group that rows are chosen by need not be among them."""
    _append(folder, range(5))
    for group, found in (("g", [0, 1, 2, 3, 4]), ("h", [])):
        source = ConsumerOffsets({"path": str(folder), "groups": group})
        stream = source.streamReader(StructType([StructField("offset", LongType())]))
        assert isinstance(stream, DirectoryStream)
        end = stream.latestOffset(stream.initialOffset(), stream.getDefaultReadLimit())
        parts = stream.partitions(stream.initialOffset(), end)
        rows = [row for part in parts for batch in stream.read(part) for row in batch.to_pylist()]
        assert rows == [{"offset": offset} for offset in found]


def test_a_segment_file_is_no_stream(folder: Path) -> None:
    _append(folder, range(5))
    file = folder / f"{0:020d}.log"
    source = ConsumerOffsets({"path": str(file)})
    with pytest.raises(ArgumentError, match=f"option path: {file} is a file; a stream needs a dir"):
        source.streamReader(StructType())


def test_a_stream_names_the_pyspark_it_needs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PySpark 4.1 has no such module; what is missing otherwise keeps its name."""
    source = ConsumerOffsets({"path": str(folder)})
    monkeypatch.delitem(sys.modules, "pykcoord_spark.source.stream")
    with monkeypatch.context() as older:
        older.setitem(sys.modules, "pyspark.sql.streaming.datasource", None)
        with pytest.raises(ArgumentError, match=r"readStream: needs PySpark 4\.2 or newer"):
            source.streamReader(StructType())
    monkeypatch.setitem(sys.modules, "pykcoord_spark.source.rows", None)
    with pytest.raises(ModuleNotFoundError, match=r"pykcoord_spark\.source\.rows"):
        source.streamReader(StructType())
