"""Questions to a history of offsets, as DataFrames: all commits, the offsets at a time, and the
groups that went back, got stuck or flapped. Takes the columns of the source `consumer_offsets`;
plain DataFrame API, so that Spark Connect runs it too.

Compaction removes overwritten commits: an old log has only the newest commit of each partition, and
the ones before it are not known here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from pykcoord_spark.source.schema import MARKERS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["commits", "flaps", "groups", "offsets_at", "rebalances", "rewinds", "stuck"]

_COMMITS = ("OffsetCommit", "LegacyOffsetCommit")
_SLOT = ("group_id", "topic", "topic_partition")


def commits(df: DataFrame) -> DataFrame:
    """Every commit that counted, and every offset that was deleted (`tombstone`), with `group_id`,
    `topic`, `topic_partition`, `committed`, `timestamp` in ms, `partition` and `offset`.

    One of a transaction counts if the marker behind it says so, at the time it was made: of a `df`
    without the markers, which are of no group, none does.
    """
    columns = [*_SLOT, "committed", "timestamp", "tombstone", "partition", "offset"]
    is_commit = F.col("kind").isin(*_COMMITS)
    plain = df.where(is_commit & F.col("producer_id").isNull()).select(*columns)
    # From the end: a frame that grows costs Spark a pass, one that shrinks the square of it.
    behind = (
        Window.partitionBy("partition", "producer_id")
        .orderBy(F.desc("offset"))
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    marker = F.when(F.col("kind").isin(*MARKERS), F.col("kind"))
    in_transactions = (
        df.where(F.col("producer_id").isNotNull())
        .withColumn("outcome", F.last(marker, ignorenulls=True).over(behind))
        .where(is_commit & ((F.col("outcome") == "COMMIT") | F.col("tombstone")))
        .select(*columns)
    )
    return plain.union(in_transactions)


def groups(df: DataFrame) -> DataFrame:
    """One row for each group: `commits`, `deleted` offsets, `topics`, `partitions` it committed,
    its `first` and `last` commit in ms, and `rebalances`."""
    by_commits = (
        commits(df)
        .groupBy("group_id")
        .agg(
            F.count_if(~F.col("tombstone")).alias("commits"),
            F.count_if("tombstone").alias("deleted"),
            F.count_distinct("topic").alias("topics"),
            F.count_distinct("topic", "topic_partition").alias("partitions"),
            F.min("timestamp").alias("first"),
            F.max("timestamp").alias("last"),
        )
    )
    by_rebalances = rebalances(df).groupBy("group_id").agg(F.count("*").alias("rebalances"))
    counts = ("commits", "deleted", "topics", "partitions", "rebalances")
    joined = by_commits.join(by_rebalances, "group_id", "full_outer")
    return joined.na.fill(0, subset=list(counts)).orderBy(F.desc("commits"), "group_id")


def offsets_at(df: DataFrame, at_ms: int) -> DataFrame:
    """The offsets that held at a point in time: `committed` of each partition of each group, and
    the `timestamp` of the commit, in ms."""
    newest = F.max_by(F.struct("committed", "timestamp", "tombstone"), F.col("offset"))
    return (
        commits(df)
        .where(F.col("timestamp") <= at_ms)
        .groupBy(*_SLOT)
        .agg(newest.alias("newest"))
        .where(~F.col("newest.tombstone"))
        .select(*_SLOT, "newest.committed", "newest.timestamp")
        .orderBy(*_SLOT)
    )


def rewinds(df: DataFrame) -> DataFrame:
    """Commits that went back: `timestamp` in ms, `before`, `committed`, and `by` how many records.
    The first commit after a deletion is never a rewind."""
    order = Window.partitionBy(*_SLOT).orderBy("offset")
    return (
        commits(df)
        .withColumn("before", F.lag("committed").over(order))
        .where(F.col("committed") < F.col("before"))
        .select(
            *_SLOT,
            "timestamp",
            "before",
            "committed",
            (F.col("before") - F.col("committed")).alias("by"),
        )
        .orderBy(F.desc("by"), *_SLOT, "timestamp")
    )


def stuck(df: DataFrame, for_ms: int = 600_000) -> DataFrame:
    """Partitions of groups that do not move on, `since` and until `last`, in ms; `why`:

    * `same offset`: the newest commits, at least three over `for_ms`, all say `committed`. A topic
      into which nothing is written looks the same;
    * `no commits`: the group still commits other partitions of the topic, and this one for `for_ms`
      not any more.
    """
    order = Window.partitionBy(*_SLOT).orderBy("offset")
    changed = F.coalesce(F.col("committed") != F.lag("committed").over(order), F.lit(True))
    runs = (
        commits(df)
        .withColumn("run", F.sum(changed.cast("int")).over(order))
        .groupBy(*_SLOT, "run")
        .agg(
            F.max("committed").alias("committed"),
            F.min("timestamp").alias("since"),
            F.max("timestamp").alias("last"),
            F.count("*").alias("commits"),
        )
    )
    newest = F.max_by(F.struct("committed", "since", "last", "commits"), F.col("run"))
    slots = runs.groupBy(*_SLOT).agg(newest.alias("newest")).select(*_SLOT, "newest.*")
    together = Window.partitionBy("group_id", "topic")
    silent_ms = F.max("last").over(together) - F.col("last")
    why: Column = F.when(silent_ms >= for_ms, "no commits").when(
        (F.col("last") - F.col("since") >= for_ms) & (F.col("commits") >= 3), "same offset"
    )
    return (
        slots.where(F.col("committed").isNotNull())
        .withColumn("why", why)
        .where(F.col("why").isNotNull())
        .select(*_SLOT, "why", "committed", "since", "last", "commits")
        .orderBy("since", *_SLOT)
    )


def rebalances(df: DataFrame) -> DataFrame:
    """The first record of each `generation` of a classic group, or epoch of another: `group_id`,
    `generation`, `timestamp` in ms."""
    return (
        df.where(F.col("generation").isNotNull() & (F.col("generation") > 0))
        .groupBy("group_id", "generation")
        .agg(F.min("timestamp").alias("timestamp"))
    )


def flaps(df: DataFrame, at_least: int = 5, within_ms: int = 600_000) -> DataFrame:
    """Groups with `at_least` rebalances in some stretch of `within_ms`: `most` of them in one,
    which ended at `timestamp` in ms, and `generation` then."""
    stretch = Window.partitionBy("group_id").orderBy("timestamp").rangeBetween(-within_ms, 0)
    worst = F.max_by(F.struct("timestamp", "generation"), F.col("count"))
    return (
        rebalances(df)
        .withColumn("count", F.count("*").over(stretch))
        .groupBy("group_id")
        .agg(F.max("count").alias("most"), worst.alias("worst"))
        .where(F.col("most") >= at_least)
        .select("group_id", "most", "worst.timestamp", "worst.generation")
        .orderBy(F.desc("most"), "group_id")
    )
