"""`python -m pykcoord_spark stream`: requests of a stream answered into a folder, exactly once."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pykcoord.errors import ArgumentError
from pykcoord_spark.jobs.options import engine_config, engine_options, topic_option
from pykcoord_spark.session import opened, session_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

# Sources of files have no columns of their own; other sources refuse a schema.
_FILE_FORMATS = ("avro", "csv", "json", "orc", "parquet")
_METRICS = "answers"
_POLL_S = 0.5
_PROGRESS_S = 2.0


@click.command(
    short_help="Answer a stream of requests, each exactly once.",
    epilog="The columns of the requests: pykcoord.arrow.REQUEST, see docs/spark.md. Started again "
    "with the same --checkpoint it goes on where it ended, however it ended.",
)
@click.option(
    "--requests", "path", metavar="PATH", help="Where requests come: a folder, read as --format."
)
@click.option(
    "--format", "source", default="parquet", show_default=True, metavar="NAME",
    help="Any streaming source of Spark.",
)  # fmt: skip
@click.option(
    "--option", "options", multiple=True, metavar="KEY=VALUE",
    help="An option of the source, as maxFilesPerTrigger=10; repeatable.",
)  # fmt: skip
@click.option("--out", required=True, metavar="PATH", help="The folder for answers: Parquet.")
@click.option(
    "--checkpoint", required=True, metavar="PATH", help="Where Spark keeps how far the query is."
)
@click.option(
    "--shards", required=True, type=click.IntRange(min=1), help="How many; fixed by the log."
)
@click.option(
    "--log", required=True, metavar="DIR|URL",
    help="Where the state lies, for all machines: a folder, or s3://, gs://, az://.",
)  # fmt: skip
@topic_option("A topic that exists; repeatable. Without, every topic does.")
@engine_options
@click.option("--available-now", is_flag=True, help="Answer what is there, then end.")
@click.option(
    "--every", "every_s", type=click.FloatRange(0, min_open=True), metavar="SECONDS",
    help="A micro-batch so often; without, one after the other.",
)  # fmt: skip
@click.option(
    "--uses-clock", is_flag=True, help="Let time go on with the clock, not with the rows alone."
)
@click.option(
    "--snapshot-every", type=click.IntRange(min=1), default=64, show_default=True,
    metavar="ENTRIES", help="Keep a snapshot of a shard after so many micro-batches.",
)  # fmt: skip
@session_options
def command(
    path: str | None,
    source: str,
    options: Sequence[str],
    out: str,
    checkpoint: str,
    shards: int,
    log: str,
    topics: Sequence[tuple[str, int]],
    config_file: Path | None,
    overrides: Sequence[str],
    available_now: bool,
    every_s: float | None,
    uses_clock: bool,
    snapshot_every: int,
    master: str | None,
    remote: str | None,
    configuration: Sequence[str],
) -> None:
    """Answer requests as they come, until SIGINT or SIGTERM, or with --available-now once.

    \b
    Example:
      python -m pykcoord_spark stream --requests requests --out answers \\
        --checkpoint checkpoint --shards 50 --log groups-log --available-now --master 'local[2]'
    """
    if available_now and every_s is not None:
        raise click.UsageError("--available-now and --every exclude each other")
    if path is None and source in _FILE_FORMATS:
        raise click.UsageError(f"--format {source} needs --requests: the folder")
    settings = _pairs(options)
    config = engine_config(config_file, overrides)
    _refuse_answers_of_another(out, checkpoint)
    with opened(
        "pykcoord stream", master=master, remote=remote, configuration=configuration, bar=False
    ) as spark:
        from pykcoord_spark.streaming import coordinate

        answers = coordinate(
            _requests(spark, path, source, settings), shards, log, config=config,
            topics=dict(topics) or None, uses_clock=uses_clock, snapshot_every=snapshot_every,
        )  # fmt: skip
        writer = _observed(answers).writeStream.format("parquet")
        if available_now:
            writer = writer.trigger(availableNow=True)
        elif every_s is not None:
            writer = writer.trigger(processingTime=f"{round(every_s * 1000)} milliseconds")
        with _told_to_end() as told:
            query = writer.option("checkpointLocation", checkpoint).start(out)
            _say(_run(query, told), out, was_told=told.is_set())


@dataclass
class _Counts:
    """The work of this run of the query, by the numbers of its micro-batches."""

    began: float = field(default_factory=time.monotonic)
    # Of each: requests, answers, and those of them that are errors.
    batches: dict[int, tuple[int, int, int]] = field(default_factory=dict)

    def add(self, query: StreamingQuery) -> bool:
        """Takes over what Spark reports; whether it is more than before."""
        before = len(self.batches)
        for progress in query.recentProgress:
            told = progress.observedMetrics.get(_METRICS)
            if told is not None and progress.numInputRows:
                rows = (progress.numInputRows, told["answers"], told["errors"] or 0)
                self.batches[progress.batchId] = rows
        return len(self.batches) > before

    def totals(self) -> tuple[int, int, int]:
        requests, answers, errors = (
            sum(each[column] for each in self.batches.values()) for column in range(3)
        )
        return requests, answers, errors

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began


def _requests(
    spark: SparkSession, path: str | None, source: str, settings: dict[str, str]
) -> DataFrame:
    from pykcoord_spark.schemas import REQUEST, ddl

    reader = spark.readStream.format(source).options(**settings)
    if source in _FILE_FORMATS:
        reader = reader.schema(ddl(REQUEST))
    return reader.load(path) if path is not None else reader.load()


def _observed(answers: DataFrame) -> DataFrame:
    """The same, and Spark counts them on the way."""
    from pyspark.sql import functions as F

    errors = F.sum((F.col("error_code") != 0).cast("bigint"))
    return answers.observe(_METRICS, F.count("*").alias("answers"), errors.alias("errors"))


def _run(query: StreamingQuery, told: threading.Event) -> _Counts:
    """Waits for the end of the query, or for a signal to end it, and says how far it is."""
    counts = _Counts()
    said = 0.0
    while not query.awaitTermination(_POLL_S):  # type: ignore[arg-type]  # a float will do
        if told.is_set():
            # A micro-batch that is under way is done again at the next start: the part that is in
            # the log already is answered from there.
            query.stop()
            break
        if counts.add(query) and counts.seconds - said >= _PROGRESS_S:
            said = counts.seconds
            requests, answers, _ = counts.totals()
            click.echo(
                f"micro-batch {max(counts.batches)}: {requests:,} requests, {answers:,} answers "
                f"in {said:.0f} s",
                err=True,
            )
    counts.add(query)
    return counts


def _say(counts: _Counts, out: str, *, was_told: bool) -> None:
    requests, answers, errors = counts.totals()
    if was_told:
        click.echo("ended: what is answered is in the log; start it again to go on", err=True)
    click.echo(
        f"{requests:,} requests in {len(counts.batches):,} micro-batches, in {counts.seconds:.1f} s"
    )
    click.echo(f"  answered {answers:,}, {errors:,} of them with an error")
    click.echo(f"Read it: spark.read.parquet({out!r})")


@contextlib.contextmanager
def _told_to_end() -> Iterator[threading.Event]:
    """Set by SIGINT and SIGTERM. An exception would come in the midst of a call to the JVM."""
    told = threading.Event()
    before = {
        each: signal.signal(each, lambda *_: told.set()) for each in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield told
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _refuse_answers_of_another(out: str, checkpoint: str) -> None:
    """Spark's file sink takes the first micro-batches of a new query for those of the old one, and
    drops them. Only what lies on this machine can be looked at."""
    if "://" in out or "://" in checkpoint:
        return
    if (Path(out) / "_spark_metadata").exists() and not (Path(checkpoint) / "metadata").exists():
        raise ArgumentError(
            "--checkpoint",
            f"{checkpoint} is new, and {out} has the answers of another query: name its "
            "checkpoint, or another --out",
        )


def _pairs(options: Sequence[str]) -> dict[str, str]:
    pairs = {}
    for each in options:
        key, equals, value = each.partition("=")
        if not equals or not key:
            raise click.UsageError(f"--option {each}: not of the form KEY=VALUE")
        pairs[key] = value
    return pairs
