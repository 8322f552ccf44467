"""Rows to the shard of their group, so that the number of a Spark partition is that of a shard.

`repartitionById` alone does that: every other way hashes the number of the shard once more and
puts two shards into one partition. The hash of a group is Java's (`Utils.abs` of Kafka over
`String.hashCode`) and is computed by Spark, without a row going through Python.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from weakref import WeakKeyDictionary

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from pykcoord.errors import ArgumentError

__all__ = [
    "SHARD",
    "check_shards",
    "exact",
    "repartitioned",
    "route",
    "shard_expression",
    "with_shard",
]

# The column that `route` adds.
SHARD = "shard"

_MAX_SHARDS = 100_000
_HASH = "java_method('java.util.Objects', 'hashCode', {group})"
# Whether a session lets SQL call Java. Some platforms do not.
_calls_java: WeakKeyDictionary[SparkSession, bool] = WeakKeyDictionary()


def shard_expression(shards: int, group: str = "group_id", *, java: bool = True) -> Column:
    """The shard (INT) of the group whose id is in the column `group`; of NULL it is 0.

    With `java=False` the hash is computed in Python's workers: for platforms that do not let SQL
    call a Java method, at the price of the way there and back.
    """
    check_shards(shards)
    quoted = f"`{group.replace('`', '``')}`"
    if not java:
        return _hashed_in_python(shards, F.expr(quoted))
    hashed = f"cast({_HASH.format(group=quoted)} as int)"
    # With ANSI rules, abs() of the least number throws. Kafka's Utils.abs makes it 0.
    positive = f"case when {hashed} = -2147483648 then 0 else abs({hashed}) end"
    return F.expr(f"cast({positive} % {shards} as int)")


def route(df: DataFrame, shards: int, group: str = "group_id") -> DataFrame:
    """`df` with a column `shard`, and each shard's rows in the Spark partition of its number.

    There are `shards` partitions, empty ones included: adaptive execution leaves them alone. The
    order of rows within a partition is not defined.
    """
    return repartitioned(with_shard(df, shards, group), shards)


def with_shard(df: DataFrame, shards: int, group: str = "group_id") -> DataFrame:
    """`df` with a column `shard`, its rows where they were."""
    java = calls_java(df.sparkSession)
    return df.withColumn(SHARD, shard_expression(shards, group, java=java))


def repartitioned(df: DataFrame, shards: int) -> DataFrame:
    """Each row in the Spark partition that its column `shard` names."""
    return df.repartitionById(shards, F.col(SHARD))


def exact(batches: Iterable[pa.RecordBatch], shard: int) -> Iterator[pa.RecordBatch]:
    """The rows of a task, after the check that all are of its shard.

    Raises ArgumentError that names the row's shard: then the plan was changed after `route`.
    """
    for batch in batches:
        there = pc.min_max(batch.column(SHARD)).as_py()
        for other in (there["min"], there["max"]):
            if other is not None and other != shard:
                reason = (
                    f"a row of shard {other} came to the task of shard {shard}: "
                    "repartition nothing between route() and mapInArrow()"
                )
                raise ArgumentError(SHARD, reason)
        yield batch


def check_shards(shards: int) -> None:
    """Raises ArgumentError for a number of shards that cannot be."""
    if not 1 <= shards <= _MAX_SHARDS:
        raise ArgumentError("shards", f"{shards} is not 1 to {_MAX_SHARDS}")


def calls_java(spark: SparkSession) -> bool:
    """Whether SQL may call `String.hashCode` in this session: asked once, of a constant."""
    known = _calls_java.get(spark)
    if known is None:
        try:
            answer = spark.sql(f"select {_HASH.format(group=repr('a'))}").collect()[0][0]
            known = answer == "97"
        except PySparkException:
            known = False
        _calls_java[spark] = known
    return known


def _hashed_in_python(shards: int, group: Column) -> Column:
    def shard_of(groups: pa.Array) -> pa.Array:
        from pykcoord.records import partition_of

        return pa.array(
            (partition_of(group or "", shards) for group in groups.to_pylist()), pa.int32()
        )

    # Spark reads the kind of function off its annotations, which are text here.
    shard_of.__annotations__ = {"groups": pa.Array, "return": pa.Array}
    shard: Column = F.arrow_udf(shard_of, "int")(group)  # type: ignore[attr-defined]
    return shard
