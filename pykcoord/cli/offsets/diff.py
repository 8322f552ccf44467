"""`pykcoord offsets diff`: what changed in the offsets of a group between two times."""

from __future__ import annotations

import json
from pathlib import Path

import click

from pykcoord.cli.listing import Listing, print_listings
from pykcoord.cli.offsets.past import group_argument, past_of, path_argument
from pykcoord.cli.opening import on_corruption_option
from pykcoord.cli.plain import counted, time_text
from pykcoord.cli.types import MomentType
from pykcoord.log import OnCorruption

_COLUMNS = ("topic", "partition", "before", "after", "change", "changed")


@click.command(name="diff", short_help="Print what changed between two times.")
@group_argument
@path_argument
@click.option(
    "--from",
    "from_ms",
    type=MomentType(),
    required=True,
    help="The first time: how long ago (90s, 15m, 2h, 7d), or ISO 8601.",
)
@click.option("--to", "to_ms", type=MomentType(), help="The second time. [default: now]")
@click.option("--json", "as_json", is_flag=True, help="JSON instead of a table.")
@on_corruption_option
def command(
    group_id: str,
    path: Path,
    from_ms: int,
    to_ms: int | None,
    as_json: bool,
    on_corruption: OnCorruption,
) -> int:
    """Print what changed in the committed offsets of GROUP between two times, and when each offset
    was changed last.

    \b
    Example:
      pykcoord offsets diff billing pykcoord-data --from 2h --to 1h
    """
    if to_ms is not None and to_ms < from_ms:
        raise click.UsageError(f"--to {time_text(to_ms)} lies before --from {time_text(from_ms)}")
    past = past_of(group_id, path, on_corruption)
    before, after = past.at(from_ms), past.at(to_ms)
    changed = past.changed(to_ms)
    rows = []
    for topic, partition in sorted(before.keys() | after.keys()):
        was, now = (
            None if (one := found.get((topic, partition))) is None else one.offset
            for found in (before, after)
        )
        if was != now:
            rows.append((topic, partition, was, now, changed[topic, partition]))
    if as_json:
        names = ("topic", "partition", "before", "after", "changed")
        shown = [dict(zip(names, row, strict=True)) for row in rows]
        click.echo(json.dumps({"group": group_id, "changes": shown}, indent=1, ensure_ascii=False))
        return 0
    until = "now" if to_ms is None else time_text(to_ms)
    title = f"Offsets of {group_id} from {time_text(from_ms)} to {until}"
    print_listings([Listing(title, _COLUMNS, [_cells(*row) for row in rows])])
    same = len(before.keys() & after.keys()) - sum(None not in row[2:4] for row in rows)
    click.echo(f"{counted(same, 'partition')} without a change")
    return 0


def _cells(
    topic: str, partition: int, was: int | None, now: int | None, changed_ms: int
) -> list[str]:
    change = "new" if was is None else "gone" if now is None else f"{now - was:+d}"
    shown = ["" if one is None else str(one) for one in (was, now)]
    return [topic, str(partition), *shown, change, time_text(changed_ms)]
