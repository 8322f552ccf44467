"""`pykcoord offsets show|diff|restore|expiring`: committed offsets, now and at any time."""

from __future__ import annotations

import click

from pykcoord.cli.offsets import diff, expiring, restore, show

__all__ = ["command"]


@click.group(short_help="Show committed offsets of any time; bring them back.")
def command() -> None:
    """Look at the committed offsets of groups, now and in the past, and bring them back after a
    reset, a deletion or an expiry that was a mistake.

    PATH is a data directory, pykcoord's or of a Kafka broker, stopped or running; or one
    __consumer_offsets-N folder of it. How far back it reaches: offsets.history.retention.ms.

    \b
    Example:
      pykcoord offsets show billing pykcoord-data --at 2h
      pykcoord offsets diff billing pykcoord-data --from 2h
      pykcoord offsets restore billing pykcoord-data --at 2h --dry-run
    """


command.add_command(show.command)
command.add_command(diff.command)
command.add_command(restore.command)
command.add_command(expiring.command)
