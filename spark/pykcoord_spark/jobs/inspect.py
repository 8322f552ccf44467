"""`python -m pykcoord_spark inspect`: the commits of groups, and the groups that went back, got
stuck or flapped, from a directory or a live cluster."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pykcoord.errors import ArgumentError, LogError
from pykcoord.log import segment_files
from pykcoord_spark.session import opened, session_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pykcoord_spark.inspecting.report import Report

_MINUTE_MS = 60_000
# Up to here starting the JVM and compiling are most of the work.
_BRIEF_BYTES = 16 << 20


@click.command(short_help="Say from a log or a cluster what groups did with their offsets.")
@click.argument("path", required=False)
@click.option("--bootstrap-servers", metavar="HOST:PORT", help="A live cluster instead of PATH.")
@click.option(
    "--kafka",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting of librdkafka for the cluster; repeatable.",
)
@click.option("--group", "groups", multiple=True, help="Only this group; repeatable.")
@click.option(
    "--at", metavar="TIME", help="Also the offsets that held then: ISO 8601 (UTC) or ms since 1970."
)
@click.option(
    "--stuck-minutes", type=click.FloatRange(min=0), default=10, show_default=True,
    help="A partition that does not move for so long is stuck.",
)  # fmt: skip
@click.option(
    "--flap-rebalances", type=click.IntRange(min=2), default=5, show_default=True,
    help="A group with so many rebalances within --flap-minutes flaps.",
)  # fmt: skip
@click.option("--flap-minutes", type=click.FloatRange(min=0), default=10, show_default=True)
@click.option(
    "--rows", type=click.IntRange(min=1), default=100, show_default=True,
    help="Rows of each table at most.",
)  # fmt: skip
@click.option("--html", "page", metavar="FILE", help="Write a page with tables and plots, too.")
@click.option(
    "--on-corruption",
    type=click.Choice(["refuse", "truncate"]),
    default="refuse",
    show_default=True,
    help="A damaged segment: stop, or read up to there.",
)
@session_options
def command(
    path: str | None,
    bootstrap_servers: str | None,
    settings: Sequence[str],
    groups: Sequence[str],
    at: str | None,
    stuck_minutes: float,
    flap_rebalances: int,
    flap_minutes: float,
    rows: int,
    page: str | None,
    on_corruption: str,
    master: str | None,
    remote: str | None,
    configuration: Sequence[str],
) -> None:
    """Say what groups did with their offsets.

    PATH is a data directory of pykcoord or Kafka, or one __consumer_offsets-N folder, where
    Spark's executors see it.

    \b
    Example:
      python -m pykcoord_spark inspect pykcoord-data --html history.html --master 'local[2]'
    """
    from pykcoord_spark.inspecting.page import check_plots
    from pykcoord_spark.inspecting.page import page as rendered
    from pykcoord_spark.inspecting.report import Limits, report_of

    at_ms = None if at is None else _milliseconds(at)
    options = _source(path, bootstrap_servers, settings)
    if groups and not any("," in group or group != group.strip() for group in groups):
        options["groups"] = ",".join(groups)  # fewer rows come to Spark
    if path is not None:
        options["on_corruption"] = on_corruption
    limits = Limits(
        stuck_ms=round(stuck_minutes * _MINUTE_MS),
        flaps=flap_rebalances,
        flaps_within_ms=round(flap_minutes * _MINUTE_MS),
        rows=rows,
    )
    if page is not None:
        check_plots()
        if not Path(page).absolute().parent.is_dir():
            raise ArgumentError("--html", f"{Path(page).absolute().parent}: no such folder")
    source = path or f"__consumer_offsets of {bootstrap_servers}"
    click.echo(f"starting Spark, to read {source} ...", err=True)
    with opened(
        "pykcoord inspect",
        master=master,
        remote=remote,
        configuration=configuration,
        bar=False,
        brief=path is not None and _bytes_of(path) <= _BRIEF_BYTES,
    ) as spark:
        began = time.monotonic()
        report = report_of(
            _loaded(spark, options), source, limits, at_ms, groups, progress=_tell_progress
        )
        seconds = time.monotonic() - began
    _print(report)
    if page is not None:
        Path(page).write_text(rendered(report), "utf-8")
        click.echo(f"Page: {page}")
    click.echo(f"{report.records:,} records in {seconds:.1f} s", err=True)


def _source(path: str | None, servers: str | None, settings: Sequence[str]) -> dict[str, str]:
    if (path is None) == (servers is None):
        raise click.UsageError("give PATH or --bootstrap-servers, one of them")
    if path is not None:
        if settings:
            raise click.UsageError("--kafka goes with --bootstrap-servers")
        return {"path": path}
    assert servers is not None
    options = {"kafka.bootstrap.servers": servers}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise click.UsageError(f"--kafka {setting}: not of the form KEY=VALUE")
        options[f"kafka.{key}"] = value
    return options


def _loaded(spark: SparkSession, options: dict[str, str]) -> DataFrame:
    from pykcoord_spark.inspecting.report import COLUMNS
    from pykcoord_spark.source.schema import ddl_of

    reader = spark.read.format("consumer_offsets").schema(ddl_of(COLUMNS))
    return reader.options(**options).load()


def _bytes_of(path: str) -> float:
    """Of a log's segments; no end of them if they are only seen by executors."""
    try:
        found = segment_files(Path(path))
        return sum(each.path.stat().st_size for files in found.values() for each in files)
    except (OSError, LogError):
        return math.inf


def _tell_progress(step: str) -> None:
    click.echo(f"  {step} ...", err=True)


def _milliseconds(text: str) -> int:
    if text.isdecimal():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise click.UsageError(
            f"--at {text}: neither ISO 8601, as 2026-01-31T12:00, nor milliseconds"
        ) from None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def _print(report: Report) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from pykcoord_spark.inspecting.page import TITLES, cell

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 200
    for name, found in report.tables.items():
        left_out = found.total - len(found.rows)
        more = f" (the first {len(found.rows)} of {found.total:,})" if left_out else ""
        if not found.rows:
            console.print(f"{TITLES[name]}: none\n")
            continue
        table = Table(title=f"{TITLES[name]}{more}", title_justify="left")
        for column, value in zip(found.columns, found.rows[0], strict=True):
            is_number = isinstance(value, int)
            title = column.replace("_", " ")
            table.add_column(title, justify="right" if is_number else "left", overflow="fold")
        for row in found.rows:
            shown = zip(found.columns, row, strict=True)
            table.add_row(*(escape(cell(column, value)) for column, value in shown))
        console.print(table)
    if not report.records:
        raise LogError(f"{report.source}: no records there, or none of these groups")
