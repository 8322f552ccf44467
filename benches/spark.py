"""What pykcoord costs on Spark with two cores, beside its goals: `python -m benches.spark`.

Times are shown, and never fail a gate. The same run measures what Spark itself needs for the same
rows, with tasks that do nothing. A goal in time holds on a machine where Spark alone is as fast as
on the one where the goal was set; elsewhere the same ratio counts. It touches only folders that it
made.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from benches.cold_start import write_log
from benches.kafka.compare import ALL_PHASES, FULL, SYNCED, WARM_UP, Load, Run
from benches.kafka.servers import PARTITIONS, TOPIC, Pykcoord, Server
from pykcoord import _native
from tests.support.spark_events import requests

if TYPE_CHECKING:
    from pykcoord_spark import Cluster
    from pyspark.sql import DataFrame, SparkSession

STREAM_SHARDS = 8
WHO_COMMITTED_WHAT = (
    "timestamp BIGINT, group_id STRING, topic STRING, topic_partition INT, committed BIGINT"
)
ROUNDS = 3
# What Spark alone did where the goals were set (rows of a source a second; a micro-batch, ms).
SOURCE_GOAL, SOURCE_ALONE = 2e6, 3.8e6
MICRO_BATCH_GOAL, MICRO_BATCH_ALONE = 500, 321
# The first micro-batches begin shards, start workers and compile.
WARM_BATCHES = 2

console = Console(width=None if sys.stdout.isatty() else 110)


@dataclass(frozen=True)
class Size:
    """How large a run is: events, groups and shards of a replay; groups to assign; groups of a log;
    requests of a micro-batch, and the number of micro-batches; events, ids and shards of the
    history; shards of a live host, connections to it, and the seconds of each.
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
    host_shards: int = 16
    connections: int = 200
    load_seconds: float = 5


SMOKE = Size(
    events=4_000, groups=400, shards=4, assigned=500, logged=500, requests=500, batches=4,
    history=4_000, history_ids=2_000, history_shards=4, host_shards=4, connections=10,
    load_seconds=0.5,
)  # fmt: skip


@dataclass(frozen=True)
class Figure:
    """A measured value, in words, beside its goal."""

    axis: str
    measured: str
    goal: str
    is_met: bool


def replay_ratio(spark: SparkSession, size: Size, root: Path) -> Iterator[Figure]:
    """Rows a second of a replay, as a share of those of the same plan with tasks that return their
    rows."""
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
        pass  # the rows are not kept, so it runs each time
    plans = {
        "identity": routed.mapInArrow(returned, routed.schema),
        "replay": replayed.envelope,
    }
    rates = _rates_in_turns(plans, size.events)
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
    """Records a second, as a share of those from a source whose batches are in memory."""
    write_log(root / "log", size.logged)
    log = str(root / "log")
    everything = spark.read.format("consumer_offsets").load(log)
    some = spark.read.format("consumer_offsets").schema(WHO_COMMITTED_WHAT).load(log)
    records = everything.count()
    assert records > size.logged, f"{records} records"
    share = SOURCE_GOAL / SOURCE_ALONE
    for what, plan in (("five columns", some), ("all columns", everything)):
        plans = {"read": plan, "ready": _ready(spark, plan, records)}
        rates = _rates_in_turns(plans, records)
        ratio = rates["read"] / rates["ready"]
        yield Figure(
            f"consumer_offsets, {what}",
            f"{rates['read']:,.0f} records/s, {ratio:.0%} of what Spark takes",
            f"2 M, or {share:.0%}",
            rates["read"] >= SOURCE_GOAL or ratio >= share,
        )


def _ready(spark: SparkSession, plan: DataFrame, records: int) -> DataFrame:
    """The same number of rows, with the same columns, from two tasks that have them in memory."""
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

    schema = plan.schema
    rows = plan.limit(10_000).toArrow().combine_chunks().to_batches()[0]
    tasks = 2

    class Reader(DataSourceReader):
        def partitions(self) -> list[InputPartition]:
            return [InputPartition(number) for number in range(tasks)]

        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            left = records // tasks
            while left > 0:
                yield rows.slice(0, left)
                left -= rows.num_rows

    class Ready(DataSource):
        @classmethod
        def name(cls) -> str:
            return "ready"

        def reader(self, schema: object) -> DataSourceReader:
            return Reader()

    spark.dataSource.register(Ready)
    return spark.read.format("ready").schema(schema).load()


def micro_batch(spark: SparkSession, size: Size, root: Path) -> Iterator[Figure]:
    """A whole trigger, with Spark's own log of it, beside a trigger of a query without answers."""
    from pykcoord_spark.partition import route
    from pykcoord_spark.schemas import REQUEST, RESPONSE, ddl
    from pykcoord_spark.streaming import coordinate

    folder = root / "requests"
    for number in range(size.batches + WARM_BATCHES):
        rows = requests(
            spark, size.requests, size.groups, per_second=10_000, first=number * size.requests
        )
        rows.coalesce(2).write.mode("append").parquet(str(folder))
    stream = spark.readStream.schema(ddl(REQUEST)).option("maxFilesPerTrigger", 2)
    asked = stream.parquet(str(folder))
    nobody = RESPONSE.empty_table().to_batches()

    def silent(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield from nobody

    plans = {
        "silent": route(asked, STREAM_SHARDS).mapInArrow(silent, ddl(RESPONSE)),
        "answered": coordinate(asked, STREAM_SHARDS, root / "shard-log"),
    }
    took = {name: _triggers(plan, size, root / name) for name, plan in plans.items()}
    median = {name: statistics.median(of) for name, of in took.items()}
    ratio, goal = median["answered"] / median["silent"], MICRO_BATCH_GOAL / MICRO_BATCH_ALONE
    yield Figure(
        f"micro-batch of {size.requests:,} requests, {STREAM_SHARDS} shards",
        f"{median['answered']:,.0f} ms (at most {max(took['answered']):,}), "
        f"{ratio:.2f}x of one that answers nothing",
        f"500 ms, or {goal:.2f}x",
        median["answered"] <= MICRO_BATCH_GOAL or ratio <= goal,
    )


def _triggers(answers: DataFrame, size: Size, checkpoint: Path) -> list[int]:
    """How long each trigger took once it was warm, in milliseconds."""
    query = (
        answers.writeStream.format("noop")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    told = [each for each in query.recentProgress if each.numInputRows]
    took = [each.durationMs["triggerExecution"] for each in told[WARM_BATCHES:]]
    assert len(took) == size.batches, took
    return took


def history(spark: SparkSession, size: Size, root: Path) -> Iterator[Figure]:
    """In a session that has replayed a twentieth of it before, and nothing else: its code is warm,
    and no other axis has made its workers large.
    """
    from pykcoord_spark.replaying import replay

    def summary(part: int) -> DataFrame:
        events = requests(spark, size.history // part, size.history_ids // part, per_second=10_000)
        with replay(events, size.history_shards) as replayed:
            return replayed.summary  # the rows are not kept: it runs when they are asked for

    summary(20).collect()
    began = time.perf_counter()
    shards = summary(1).collect()
    seconds = time.perf_counter() - began
    assert sum(row.requests for row in shards) == size.history
    memory = max(row.peak_memory_bytes for row in shards) / 1e6
    axis = f"replay of {size.history:,} events, {size.history_ids:,} ids"
    yield Figure(axis, f"{seconds:.1f} s", "57 s", seconds <= 57)
    yield Figure("its largest worker", f"{memory:,.0f} MB", "300 MB", memory <= 300)


def hosting(spark: SparkSession, size: Size, root: Path) -> Iterator[Figure]:
    """A host of all shards beside `pykcoord serve`, in turns; both sync before they answer."""
    from pykcoord_spark import Cluster

    config = {"group.initial.rebalance.delay.ms": 0}
    topics = {TOPIC: PARTITIONS}
    load = Load(replace(FULL, connections=size.connections, seconds=size.load_seconds), pin=False)
    serve = Pykcoord(root / "serve", SYNCED)
    runs: dict[str, list[Run]] = {"host": [], "serve": []}
    with (
        Cluster(
            spark, size.host_shards, 1, root / "hosted", topics=topics, config=config
        ) as cluster,
        serve,
    ):
        servers = {"host": _Host(root / "host", cluster), "serve": serve}
        for server in servers.values():
            load.run(server, WARM_UP)
        for _ in range(ROUNDS):
            for name, server in servers.items():
                runs[name].append(load.run(server, ALL_PHASES))

    def median(name: str, figure: Callable[[Run], float]) -> float:
        return statistics.median(map(figure, runs[name]))

    rates = {
        name: median(name, lambda run: run["hb"]["count"] / run["hb"]["server_cpu_s"])
        for name in runs
    }
    p99 = {name: median(name, lambda run: run["commit"]["p99_ms"]) for name in runs}
    share, times = rates["host"] / rates["serve"], p99["host"] / p99["serve"]
    of = f"{size.connections:,} connections"
    yield Figure(
        f"live host, {of}: heartbeats per CPU s beside serve",
        f"{share:.0%} ({rates['host']:,.0f} of {rates['serve']:,.0f})", "80%", share >= 0.8,
    )  # fmt: skip
    yield Figure(
        f"live host, {of}: p99 of commits beside serve",
        f"{times:.1f}x ({p99['host']:.1f} ms, {p99['serve']:.1f} ms)", "3x", times <= 3,
    )  # fmt: skip


class _Host(Server):
    """The only host of a cluster, which Spark started."""

    name = "a host"

    def __init__(self, directory: Path, cluster: Cluster) -> None:
        super().__init__(directory)
        self.output.touch()
        self._cluster = cluster

    @property
    def address(self) -> str:
        return self._cluster.bootstrap

    @property
    def pid(self) -> int:
        (host,) = self._cluster.hosts()
        return host.pid


# The history first: memory is measured as the highest that its workers ever had.
AXES: dict[str, Callable[[SparkSession, Size, Path], Iterator[Figure]]] = {
    "history": history,
    "replay": replay_ratio,
    "assign": assign,
    "source": source,
    "micro-batch": micro_batch,
    "hosting": hosting,
}
# Takes minutes and gigabytes, so it runs only when it is named.
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

    named = given.only or [axis for axis in AXES if axis != _LONG]
    axes = [axis for axis in AXES if axis in named or (axis == _LONG and given.history)]
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


def _rates_in_turns(plans: Mapping[str, DataFrame], rows: int) -> dict[str, float]:
    """Rows a second of each plan; the first round of all warms up."""
    seconds: dict[str, list[float]] = {name: [] for name in plans}
    for _ in range(ROUNDS + 1):
        for name, plan in plans.items():
            seconds[name].append(_seconds(plan))
    return {name: rows / statistics.median(of[1:]) for name, of in seconds.items()}


def _seconds(plan: DataFrame) -> float:
    """The seconds of a run whose rows are thrown away."""
    began = time.perf_counter()
    plan.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
