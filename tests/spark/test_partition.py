"""Routing: the number of a Spark partition is that of the shard, for every group id."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")
import pyarrow as pa
from pykcoord_spark import partition
from pykcoord_spark.partition import exact, route, shard_expression

from pykcoord import _native
from pykcoord.errors import ArgumentError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# The hash of the last is -2147483648, whose absolute value is no number of 32 bits.
GROUPS = [
    "",
    "a",
    "billing",
    "größe",
    "ﬀ",
    "\U0001d518nicode-🦀",
    "a`b'c\"d",
    "x" * 5000,
    "polygenelubricants",
]
SHARDS = 7


@pytest.fixture(scope="module")
def groups(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([(group,) for group in GROUPS], "group_id string")


@pytest.mark.parametrize("in_sql", [True, False])
def test_the_shard_is_that_of_kafka(groups: DataFrame, in_sql: bool) -> None:
    numbers = (1, SHARDS, 50)
    columns = [shard_expression(shards, java=in_sql) for shards in numbers]
    for group, *found in groups.select("group_id", *columns).collect():
        assert found == [_native.partition_of(group, shards) for shards in numbers], group


def test_the_number_of_a_partition_is_the_shard(spark: SparkSession) -> None:
    def numbers(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        shard = TaskContext.get().partitionId()
        rows = sum(batch.num_rows for batch in exact(batches, shard))
        yield pa.RecordBatch.from_pydict({"shard": pa.array([shard], pa.int32()), "rows": [rows]})

    ids = spark.range(1000).selectExpr("concat('group-', id) as group_id")
    found = dict(route(ids, SHARDS).mapInArrow(numbers, "shard int, rows bigint").collect())
    wanted = dict.fromkeys(range(SHARDS), 0)
    for number in range(1000):
        wanted[_native.partition_of(f"group-{number}", SHARDS)] += 1
    assert found == wanted


def test_without_java_in_sql_the_shards_are_the_same(
    groups: DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_java = sorted(route(groups, SHARDS).collect())
    monkeypatch.setitem(partition._calls_java, groups.sparkSession, False)
    without = route(groups, SHARDS)
    assert "java_method" not in without._jdf.queryExecution().toString()
    assert sorted(without.collect()) == with_java


def test_a_row_of_another_shard_is_refused() -> None:
    batch = pa.RecordBatch.from_pydict({"shard": pa.array([3, 3, 4], pa.int32())})
    assert list(exact([batch.slice(0, 2), batch.slice(0, 0)], 3))
    with pytest.raises(ArgumentError, match="shard: a row of shard 4 came to the task of shard 3"):
        list(exact([batch], 3))


@pytest.mark.parametrize("shards", [0, -1, 1_000_000])
def test_a_number_of_shards_that_cannot_be_is_refused(shards: int) -> None:
    with pytest.raises(ArgumentError, match="shards"):
        shard_expression(shards)
