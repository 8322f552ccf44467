"""`python -m pykcoord_spark assign`: the partitions of each member, for all groups of a table."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

import click

from pykcoord.assignors import STRATEGIES
from pykcoord.errors import ArgumentError
from pykcoord_spark.jobs.options import topic_option
from pykcoord_spark.session import opened, session_options


@click.command(
    short_help="Assign partitions to the members of millions of groups.",
    epilog="Columns of --members: group_id, member_id and topics (names, or a map of names to "
    "numbers of partitions); as they apply owned_partitions, generation_id, rack_id, "
    "group_instance_id, user_data. See docs/spark.md.",
)
@click.argument("strategy", metavar="STRATEGY", type=click.Choice(STRATEGIES))
@click.option("--members", required=True, metavar="PATH", help="The members: Parquet.")
@click.option("--out", required=True, metavar="PATH", help="Where the assignments go, new.")
@topic_option("A topic that exists; repeatable.")
@click.option(
    "--topics",
    "topics_file",
    type=click.File("r", encoding="utf-8"),
    help="JSON: name to number of partitions, or to the racks of each.",
)
@session_options
def command(
    strategy: str,
    members: str,
    out: str,
    topics: Sequence[tuple[str, int]],
    topics_file: Any,
    master: str | None,
    remote: str | None,
    configuration: Sequence[str],
) -> None:
    """Write what STRATEGY assigns to each member of each group.

    STRATEGY is range, roundrobin, sticky, cooperative-sticky, uniform or server-range.

    \b
    Example:
      python -m pykcoord_spark assign cooperative-sticky --members members.parquet \\
        --topic orders:12 --out assigned --master 'local[2]'
    """
    from pyspark.sql import functions as F

    from pykcoord_spark.assigning import assign

    catalogue = _catalogue(topics, topics_file)
    with opened(
        "pykcoord assign", master=master, remote=remote, configuration=configuration
    ) as spark:
        began = time.monotonic()
        assigned = assign(spark.read.parquet(members), strategy, catalogue)
        assigned.write.mode("error").parquet(out)
        seconds = time.monotonic() - began
        counts = spark.read.parquet(out).agg(
            F.count_distinct("group_id").alias("groups"),
            F.count("*").alias("members"),
            F.sum(F.size("partitions")).alias("partitions"),
            F.sum((F.size("partitions") == 0).cast("bigint")).alias("idle"),
        )
        row = counts.collect()[0]
    click.echo(f"{row.groups:,} groups assigned by {strategy} in {seconds:.1f} s")
    click.echo(f"  members    {row.members:,}, {row.idle or 0:,} of them with nothing")
    click.echo(f"  partitions {row.partitions or 0:,}")
    click.echo(f"Read it: spark.read.parquet({out!r})")


def _catalogue(topics: Sequence[tuple[str, int]], file: Any) -> dict[str, Any] | None:
    """The topics of the options; None if there are none: then the column has to say it."""
    if file is None:
        return dict(topics) or None
    try:
        found = json.load(file)
    except ValueError as error:
        raise ArgumentError(file.name, f"is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise ArgumentError(file.name, "must be an object: topics and their partitions")
    return {**found, **dict(topics)}
