"""`pykcoord offsets expiring`: which committed offsets a coordinator would delete soon."""

from __future__ import annotations

import json
from pathlib import Path

import click

from pykcoord.cli.listing import Listing, print_listings
from pykcoord.cli.offsets.past import path_argument
from pykcoord.cli.opening import on_corruption_option, opened
from pykcoord.cli.plain import time_text
from pykcoord.cli.state import expirations_of
from pykcoord.cli.types import SpanType
from pykcoord.clock import Clock
from pykcoord.log import OnCorruption

_COLUMNS = ("group", "topic", "partition", "offset", "expires")


@click.command(name="expiring", short_help="Print the offsets that expire soon.")
@path_argument
@click.option(
    "--within",
    "within_ms",
    type=SpanType(),
    default="1d",
    show_default=True,
    help="How soon: 90s, 15m, 2h, 7d.",
)
@click.option(
    "--retention-minutes",
    type=click.IntRange(min=1),
    default=10_080,
    show_default=True,
    help="offsets.retention.minutes of the server.",
)
@click.option("--json", "as_json", is_flag=True, help="JSON instead of a table.")
@on_corruption_option
def command(
    path: Path, within_ms: int, retention_minutes: int, as_json: bool, on_corruption: OnCorruption
) -> int:
    """Print the committed offsets that expire soon, or are due already, of all groups in the log at
    PATH: those of groups without members, and of topics that a group does not read any more.

    A group that is about to get members, or a new commit, keeps them.

    \b
    Example:
      pykcoord offsets expiring pykcoord-data --within 1d
    """
    until_ms = Clock().now_ms() + within_ms
    reader = opened(path, on_corruption)
    found = sorted(
        (row for row in expirations_of(reader, retention_minutes) if row[4] <= until_ms),
        key=lambda row: (row[4], row),
    )
    if as_json:
        names = ("group", "topic", "partition", "offset", "expires")
        rows = [dict(zip(names, row, strict=True)) for row in found]
        click.echo(json.dumps(rows, indent=1, ensure_ascii=False))
        return 0
    cells = [[*map(str, row[:4]), time_text(row[4])] for row in found]
    print_listings([Listing(f"Offsets that expire by {time_text(until_ms)}", _COLUMNS, cells)])
    return 0
