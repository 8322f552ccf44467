"""What pykcoord costs on Spark, two cores, beside what it is to cost: `python -m benches.spark`.

Figures of time are told and never gated on; the ratio of a replay is of two plans that ran in
turns. Must only touch folders that it made.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from benches.cold_start import write_log
from pykcoord import _native
from tests.support.spark_events import requests

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STREAM_SHARDS = 8
WHO_COMMITTED_WHAT = (
    "timestamp BIGINT, group_id STRING, topic STRING, topic_partition INT, committed BIGINT"
)
ROUNDS = 3
# The first micro-batches make snapshots, start workers and compile.
WARM_BATCHES = 2

console = Console(width=None if sys.stdout.isatty() else 110)


@dataclass(frozen=True)
class Size:
    """How much of it: events, groups and shards of a replay, groups that are assigned, groups of a
    log that is read, requests of a micro-batch and how many, events, ids and shards of the history.
    """

    events: int = 4_000_000
    groups: int = 400_000
    shards: int = 50
    assigned: int = 1_000_000
    logged: int = 700_000
    requests: int = 100_000
    batches: int = 10
    history: int = 20_000_000
    history_ids: int = 10_000_000
    history_shards: int = 200


SMOKE = Size(4_000, 400, 4, 500, 500, 500, 4, 4_000, 2_000, 4)


@dataclass(frozen=True)
class Figure:
    """What was measured, in words, beside its goal."""

    axis: str
    measured: str
    goal: str
    is_met: bool


def replay_ratio(spark: SparkSession, size: Size, root: Path) -> Iterator[Figure]:
    """Rows a second of a replay, of those of the same plan whose tasks return what they get."""
    from pykcoord_spark.partition import repartitioned, with_shard
    from pykcoord_spark.replaying import replay

    path = str(root / "events")
    requests(spark, size.events, size.groups, per_second=10_000).write.parquet(path)
    events = spark.read.parquet(path)
    routed = repartitioned(with_shard(events, size.shards), size.shards).sortWithinPartitions(
        "ts", "seq"
    )

    def returned(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    with replay(events, size.shards) as replayed:
        pass  # and its rows are not kept: it runs anew each time
    plans = {
        "identity": routed.mapInArrow(returned, routed.schema),
        "replay": replayed.envelope,
    }
    seconds: dict[str, list[float]] = {name: [] for name in plans}
    for _ in range(ROUNDS + 1):
        for name, plan in plans.items():
            seconds[name].append(_seconds(plan))
    rates = {name: size.events / statistics.median(of[1:]) for name, of in seconds.items()}
    ratio = rates["replay"] / rates["identity"]
    measured = f"{ratio:.0%} ({rates['replay']:,.0f} of {rates['identity']:,.0f} rows/s)"
    yield Figure("replay beside a plan that returns its input", measured, "80%", ratio >= 0.8)


def assign(spark: SparkSession, size: Size, root: Path) -> Iterator[Figure]:
    from pykcoord_spark.assigning import assign as assigned

    path = str(root / "members")
    spark.range(0, size.assigned * 4).selectExpr(
        "concat('group-', id div 4) as group_id",
        "concat('member-', id % 4) as member_id",
        "array('orders') as topics",
    ).write.parquet(path)
    plan = assigned(spark.read.parquet(path), "cooperative-sticky", {"orders": 16})
    seconds = _seconds(plan)
    axis = f"assign: {size.assigned:,} groups of 4 members, 16 partitions"
    yield Figure(axis, f"{seconds:.1f} s", "60 s", seconds <= 60)


def source(spark: SparkSession, size: Size, root: Path) -> Iterator[Figure]:
    write_log(root / "log", size.logged)
    log = str(root / "log")
    everything = spark.read.format("consumer_offsets").load(log)
    some = spark.read.format("consumer_offsets").schema(WHO_COMMITTED_WHAT).load(log)
    records = everything.count()
    assert records > size.logged, f"{records} records"
    for what, plan in (("five columns", some), ("all columns", everything)):
        _seconds(plan)
        rate = records / statistics.median(_seconds(plan) for _ in range(ROUNDS))
        yield Figure(f"consumer_offsets, {what}", f"{rate:,.0f} records/s", "2 M", rate >= 2e6)


def micro_batch(spark: SparkSession, size: Size, root: Path) -> Iterator[Figure]:
    """The whole of a trigger, Spark's own log of it included."""
    from pykcoord_spark.schemas import REQUEST, ddl
    from pykcoord_spark.streaming import coordinate

    folder = root / "requests"
    for number in range(size.batches + WARM_BATCHES):
        rows = requests(
            spark, size.requests, size.groups, per_second=10_000, first=number * size.requests
        )
        rows.coalesce(2).write.mode("append").parquet(str(folder))
    stream = spark.readStream.schema(ddl(REQUEST)).option("maxFilesPerTrigger", 2)
    answers = coordinate(stream.parquet(str(folder)), STREAM_SHARDS, root / "shard-log")
    query = (
        answers.writeStream.format("noop")
        .option("checkpointLocation", str(root / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    told = [each for each in query.recentProgress if each.numInputRows]
    took = [each.durationMs["triggerExecution"] for each in told[WARM_BATCHES:]]
    assert len(took) == size.batches, took
    median = statistics.median(took)
    axis = f"micro-batch of {size.requests:,} requests, {STREAM_SHARDS} shards"
    yield Figure(axis, f"{median:,.0f} ms (at most {max(took):,})", "500 ms", median <= 500)


def history(spark: SparkSession, size: Size, root: Path) -> Iterator[Figure]:
    from pykcoord_spark.replaying import replay

    events = requests(spark, size.history, size.history_ids, per_second=10_000)
    with replay(events, size.history_shards) as replayed:
        pass
    began = time.perf_counter()
    shards = replayed.summary.collect()
    seconds = time.perf_counter() - began
    assert sum(row.requests for row in shards) == size.history
    memory = max(row.peak_memory_bytes for row in shards) / 1e6
    axis = f"replay of {size.history:,} events, {size.history_ids:,} ids"
    yield Figure(axis, f"{seconds:.1f} s", "57 s", seconds <= 57)
    yield Figure("its largest worker", f"{memory:,.0f} MB", "300 MB", memory <= 300)


AXES: dict[str, Callable[[SparkSession, Size, Path], Iterator[Figure]]] = {
    "replay": replay_ratio,
    "assign": assign,
    "source": source,
    "micro-batch": micro_batch,
    "history": history,
}
# Takes minutes and gigabytes: only when it is named.
_LONG = "history"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, prog="python -m benches.spark",
        epilog="Example: python -m benches.spark --only replay --only history",
    )  # fmt: skip
    parser.add_argument("--only", action="append", choices=AXES, help="this axis; repeatable")
    parser.add_argument("--history", action="store_true", help="the long history as well")
    parser.add_argument("--smoke", action="store_true", help="a small size: whether it runs")
    given = parser.parse_args()
    if _native.profile != "release":
        sys.exit("a debug build tells nothing: make build")
    from pykcoord_spark.session import opened

    axes = given.only or [axis for axis in AXES if axis != _LONG or given.history]
    settings = ["spark.ui.showConsoleProgress=false", "spark.driver.memory=4g"]
    figures: list[Figure] = []
    with opened("pykcoord bench", master="local[2]", configuration=settings) as spark:
        for axis in axes:
            with tempfile.TemporaryDirectory(prefix="pykcoord-bench-") as root:
                for figure in AXES[axis](spark, SMOKE if given.smoke else Size(), Path(root)):
                    console.print(f"{figure.axis}: {figure.measured}")
                    figures.append(figure)
    table = Table("axis", "measured", "to reach", "", title="On Spark, local[2]")
    for figure in figures:
        table.add_row(figure.axis, figure.measured, figure.goal, "yes" if figure.is_met else "no")
    console.print(table)


def _seconds(plan: DataFrame) -> float:
    """Of a run whose rows are thrown away."""
    began = time.perf_counter()
    plan.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
