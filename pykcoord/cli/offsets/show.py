"""`pykcoord offsets show`: the committed offsets of a group, now or at a time."""

from __future__ import annotations

import json
from pathlib import Path

import click

from pykcoord.cli.listing import Listing, print_listings
from pykcoord.cli.offsets.past import group_argument, past_of, path_argument
from pykcoord.cli.opening import on_corruption_option
from pykcoord.cli.plain import base64_of, time_text
from pykcoord.cli.types import MomentType
from pykcoord.log import OnCorruption
from pykcoord.offset_history import CommittedOffset

_COLUMNS = ("topic", "partition", "offset", "leader epoch", "committed", "metadata")


@click.command(name="show", short_help="Print the offsets of a group, now or at a time.")
@group_argument
@path_argument
@click.option(
    "--at",
    "at_ms",
    type=MomentType(),
    help="At that time instead of now: how long ago (90s, 15m, 2h, 7d), or ISO 8601 "
    "(2026-11-25T08:30; UTC unless it says +01:00).",
)
@click.option("--json", "as_json", is_flag=True, help="JSON instead of a table.")
@on_corruption_option
def command(
    group_id: str, path: Path, at_ms: int | None, as_json: bool, on_corruption: OnCorruption
) -> int:
    """Print the committed offsets of GROUP, from the log at PATH.

    Those that transactions committed are in it, pending ones are not.

    \b
    Example:
      pykcoord offsets show billing pykcoord-data --at 2026-11-25T08:30
    """
    past = past_of(group_id, path, on_corruption)
    found = past.at(at_ms)
    if as_json:
        rows = [_fields(topic, number, of) for (topic, number), of in found.items()]
        shown = {"group": group_id, "at": at_ms, "completeSince": past.complete_since_ms}
        click.echo(json.dumps({**shown, "offsets": rows}, indent=1, ensure_ascii=False))
        return 0
    when = "now" if at_ms is None else f"at {time_text(at_ms)}"
    cells = [_cells(topic, number, of) for (topic, number), of in found.items()]
    print_listings([Listing(f"Offsets of {group_id} {when}", _COLUMNS, cells)])
    return 0


def _fields(topic: str, partition: int, of: CommittedOffset) -> dict[str, object]:
    return {
        "topic": topic,
        "partition": partition,
        "offset": of.offset,
        "leaderEpoch": of.leader_epoch,
        "metadata": of.metadata,
        "committed": of.committed_ms,
        "topicId": base64_of(of.topic_id) if any(of.topic_id) else None,
    }


def _cells(topic: str, partition: int, of: CommittedOffset) -> list[str]:
    epoch = "" if of.leader_epoch < 0 else str(of.leader_epoch)
    return [
        topic, str(partition), str(of.offset), epoch, time_text(of.committed_ms), of.metadata
    ]  # fmt: skip
