"""`python -m pykcoord_spark replay`: requests of the past through the coordinator, on Spark."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pykcoord_spark.jobs.options import engine_config, engine_options, print_table, topic_option
from pykcoord_spark.session import opened, session_options

if TYPE_CHECKING:
    from pykcoord_spark.replaying import Replay

_SHOWN_SHARDS = 10


@click.command(
    short_help="Replay requests through the coordinator: answers, records, state.",
    epilog="The columns of --events: pykcoord.arrow.REQUEST, see docs/spark.md.",
)
@click.option("--events", required=True, metavar="PATH", help="The requests: Parquet.")
@click.option("--shards", required=True, type=click.IntRange(min=1), help="How many shards.")
@click.option("--out", required=True, metavar="PATH", help="Where answers and records go, new.")
@click.option("--state", metavar="PATH", help="Go on from what --checkpoints of a replay wrote.")
@click.option("--checkpoints", metavar="PATH", help="Where the shards' state goes, new.")
@click.option(
    "--until", "until_ms", type=int, metavar="MS", help="Let time pass to then, at the end."
)
@click.option("--seed", default="", metavar="TEXT", help="Goes into new member ids.")
@topic_option("A topic that exists; repeatable. Without, every topic does.")
@engine_options
@session_options
def command(
    events: str,
    shards: int,
    out: str,
    state: str | None,
    checkpoints: str | None,
    until_ms: int | None,
    seed: str,
    topics: Sequence[tuple[str, int]],
    config_file: Path | None,
    overrides: Sequence[str],
    master: str | None,
    remote: str | None,
    configuration: Sequence[str],
) -> None:
    """Replay requests, each shard in a task of its own, and say what came of it.

    \b
    Example:
      python -m pykcoord_spark replay --events events.parquet --shards 50 --out replayed \\
        --master 'local[2]'
    """
    from pykcoord_spark.replaying import replay

    config = engine_config(config_file, overrides)
    with opened(
        "pykcoord replay", master=master, remote=remote, configuration=configuration
    ) as spark:
        began = time.monotonic()
        result = replay(
            spark.read.parquet(events), shards, state, config=config, topics=dict(topics) or None,
            seed=seed.encode(), until_ms=until_ms, checkpoints=checkpoints, out=out,
        )  # fmt: skip
        _say(result, time.monotonic() - began, out)


def _say(result: Replay, seconds: float, out: str) -> None:
    shards = sorted(result.summary.collect(), key=lambda row: row.requests, reverse=True)
    total = {
        name: sum(row[name] for row in shards)
        for name in ("requests", "responses", "errors", "waiting", "records", "checkpoint_bytes")
    }
    rate = total["requests"] / seconds if seconds else 0
    click.echo(f"{total['requests']:,} requests in {seconds:.1f} s ({rate:,.0f} a second)")
    click.echo(
        f"  answered {total['responses']:,}, {total['errors']:,} of them with an error; "
        f"{total['waiting']:,} wait"
    )
    click.echo(f"  records  {total['records']:,}")
    if total["checkpoint_bytes"]:
        click.echo(f"  state    {total['checkpoint_bytes'] / 1e6:,.1f} MB")
    engine = sum(row.engine_seconds for row in shards)
    memory = max(row.peak_memory_bytes for row in shards) / 1e6
    click.echo(f"  cost     {engine:.1f} s in the engine, a worker at most {memory:,.0f} MB")
    click.echo(f"\nThe {min(_SHOWN_SHARDS, len(shards))} largest of {len(shards)} shards:")
    names = ("shard", "requests", "responses", "errors", "waiting", "records", "next_offset")
    shown = shards[:_SHOWN_SHARDS]
    print_table(
        [name.replace("_", " ") for name in names], ([row[name] for name in names] for row in shown)
    )
    click.echo(
        f"Read it: pykcoord_spark.Replay.load(spark, {out!r}).responses (.records, .summary)"
    )
