"""The findings of `inspect` as plain data: collected from Spark once, for the tables and the page.
Each table has a bounded number of rows, with the number of all rows beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from pykcoord_spark.inspecting import history
from pykcoord_spark.source.schema import MARKERS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Limits", "Report", "Table", "report_of"]

_BUCKETS = 120
_PLOTTED_GROUPS = 8
_PLOTTED_POINTS = 2000
# The columns that the questions need; keys, values and metadata are most of the bytes.
COLUMNS = (
    "partition", "offset", "timestamp", "kind", "group_id", "topic", "topic_partition",
    "committed", "tombstone", "generation", "producer_id",
)  # fmt: skip


@dataclass(frozen=True)
class Limits:
    """From when on a partition is stuck, and a group flaps; rows of each table at most."""

    stuck_ms: int = 600_000
    flaps: int = 5
    flaps_within_ms: int = 600_000
    rows: int = 100


@dataclass
class Table:
    """The first `rows` of `total`."""

    columns: list[str]
    rows: list[tuple[Any, ...]]
    total: int


@dataclass
class Report:
    """`tables` by name; `activity`: commits of groups by time, `trails`: what was committed to
    partitions that went back. All times in ms."""

    source: str
    records: int = 0
    first_ms: int = 0
    last_ms: int = 0
    bucket_ms: int = 1
    kinds: list[tuple[str, int]] = field(default_factory=list)
    tables: dict[str, Table] = field(default_factory=dict)
    activity: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    rebalances: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    trails: dict[str, list[tuple[int, int]]] = field(default_factory=dict)


def report_of(
    df: DataFrame,
    source: str,
    limits: Limits,
    at_ms: int | None = None,
    groups: Sequence[str] = (),
    progress: Callable[[str], None] = lambda step: None,
) -> Report:
    """Asks all questions of `history` to the rows of `consumer_offsets`, which are read once; of
    `groups` alone if there are any. `progress` gets the next question."""
    rows = df.select(*COLUMNS)
    if groups:
        # Markers are of no group, and end the transactions of these and of all others.
        rows = rows.where(F.col("group_id").isin(*groups) | F.col("kind").isin(*MARKERS))
    cached = rows.persist()
    try:
        report = Report(source)
        progress("reading the records")
        own = cached.where(F.col("group_id").isNotNull()) if groups else cached
        in_transactions = _overview(own, report)
        # Where there are none, Spark leaves the search for their ends out of every plan.
        rows = cached if in_transactions else _without_producers(cached)
        asked = {
            "groups": history.groups(rows),
            "rewinds": history.rewinds(rows),
            "stuck": history.stuck(rows, limits.stuck_ms),
            "flaps": history.flaps(rows, limits.flaps, limits.flaps_within_ms),
        }
        if at_ms is not None:
            asked["offsets"] = history.offsets_at(rows, at_ms)
        for number, (name, of) in enumerate(asked.items(), 1):
            progress(f"question {number} of {len(asked)}: {name}")
            report.tables[name] = _table(of, limits.rows)
        progress("commits and rebalances over time")
        _series(rows, report)
        return report
    finally:
        cached.unpersist()


def _without_producers(rows: DataFrame) -> DataFrame:
    return rows.withColumn("producer_id", F.lit(None).cast("bigint"))


def _overview(rows: DataFrame, report: Report) -> bool:
    """Fills in kinds and times; whether any row is of a transaction."""
    by_kind = rows.groupBy("kind").agg(
        F.count("*").alias("count"),
        F.min("timestamp").alias("first"),
        F.max("timestamp").alias("last"),
        F.count("producer_id").alias("of_producers"),
    )
    found = sorted(by_kind.collect(), key=lambda row: (-row["count"], row["kind"]))
    report.kinds = [(row["kind"], row["count"]) for row in found]
    report.records = sum(count for _, count in report.kinds)
    report.first_ms = min((row["first"] for row in found), default=0)
    report.last_ms = max((row["last"] for row in found), default=0)
    report.bucket_ms = max(1, -(-(report.last_ms - report.first_ms + 1) // _BUCKETS))
    return any(row["of_producers"] for row in found)


def _table(df: DataFrame, most: int) -> Table:
    found = df.limit(most + 1).collect()
    total = len(found) if len(found) <= most else df.count()
    return Table(list(df.columns), [tuple(row) for row in found[:most]], total)


def _series(rows: DataFrame, report: Report) -> None:
    groups = report.tables["groups"]
    busiest = [row[0] for row in groups.rows[:_PLOTTED_GROUPS]]
    report.activity = _by_time(history.commits(rows).where(~F.col("tombstone")), busiest, report)
    nervous = history.rebalances(rows).groupBy("group_id").count()
    order = nervous.orderBy(F.desc("count"), "group_id").limit(_PLOTTED_GROUPS).collect()
    chosen = [row["group_id"] for row in order]
    report.rebalances = _by_time(history.rebalances(rows), chosen, report)
    slots: list[tuple[Any, ...]] = []
    for row in report.tables["rewinds"].rows:
        if row[:3] not in slots:
            slots.append(row[:3])
    for group, topic, partition in slots[:_PLOTTED_GROUPS]:
        here = (
            (F.col("group_id") == group)
            & (F.col("topic") == topic)
            & (F.col("topic_partition") == partition)
            & F.col("committed").isNotNull()
        )
        points = history.commits(rows).where(here).orderBy(F.desc("offset")).limit(_PLOTTED_POINTS)
        trail = [(row["timestamp"], row["committed"]) for row in points.collect()]
        report.trails[f"{group}: {topic}-{partition}"] = trail[::-1]


def _by_time(
    df: DataFrame, groups: Sequence[str], report: Report
) -> dict[str, list[tuple[int, int]]]:
    """How many rows of each group per bucket; of all the others together under ''."""
    group = F.when(F.col("group_id").isin(list(groups)), F.col("group_id")).otherwise(F.lit(""))
    bucket = F.floor((F.col("timestamp") - report.first_ms) / report.bucket_ms)
    counted = df.groupBy(group.alias("group"), bucket.alias("bucket")).count().collect()
    found: dict[str, list[tuple[int, int]]] = {name: [] for name in (*groups, "")}
    for row in sorted(counted, key=lambda row: row["bucket"]):
        at_ms = report.first_ms + row["bucket"] * report.bucket_ms
        found[row["group"]].append((at_ms, row["count"]))
    return {name: points for name, points in found.items() if points}
