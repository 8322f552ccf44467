"""`pykcoord offsets restore`: the committed offsets of a group as they were at a time, again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from pykcoord.cli.listing import Listing, print_listings
from pykcoord.cli.offsets.past import group_argument, past_of, path_argument
from pykcoord.cli.opening import on_corruption_option
from pykcoord.cli.plain import counted, time_text
from pykcoord.cli.types import MomentType
from pykcoord.errors import LogError
from pykcoord.log import OnCorruption
from pykcoord.offset_history import CommittedOffset, Offsets

__all__ = ["Plan", "command"]

_COLUMNS = ("topic", "partition", "now", "then", "change")


@dataclass(frozen=True)
class Plan:
    """What has to change for a group to have the offsets `then` instead of those of `now`."""

    then: Offsets
    now: dict[tuple[str, int], int]

    @property
    def to_set(self) -> dict[tuple[str, int], CommittedOffset]:
        """Offsets to commit."""
        return {at: of for at, of in self.then.items() if self.now.get(at) != of.offset}

    @property
    def to_remove(self) -> list[tuple[str, int]]:
        """Partitions of which the group had no offset then."""
        return sorted(self.now.keys() - self.then.keys())

    def rows(self) -> list[list[str]]:
        """One for each partition that changes."""
        rows = []
        for topic, partition in sorted([*self.to_set, *self.to_remove]):
            was, then = self.now.get((topic, partition)), self.then.get((topic, partition))
            change = "removed" if then is None else "set"
            if was is not None and then is not None:
                change = f"{then.offset - was:+d}"
            shown = ["" if was is None else str(was), "" if then is None else str(then.offset)]
            rows.append([topic, str(partition), *shown, change])
        return rows


@click.command(name="restore", short_help="Bring the offsets of a time back.")
@group_argument
@path_argument
@click.option(
    "--at",
    "at_ms",
    type=MomentType(),
    required=True,
    help="The time whose offsets come back: how long ago (90s, 15m, 2h, 7d), or ISO 8601.",
)
@click.option(
    "--bootstrap-servers",
    metavar="HOST:PORT",
    help="The running coordinator of the group, which takes the offsets.",
)
@click.option(
    "--to-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the offsets there instead, for Kafka's `kafka-consumer-groups --reset-offsets "
    "--from-file`.",
)
@click.option("--dry-run", is_flag=True, help="Print what would change, and change nothing.")
@click.option("--force", is_flag=True, help="Remove the members of the group first.")
@on_corruption_option
def command(
    group_id: str,
    path: Path,
    at_ms: int,
    bootstrap_servers: str | None,
    to_file: Path | None,
    dry_run: bool,
    force: bool,
    on_corruption: OnCorruption,
) -> int:
    """Give GROUP the committed offsets that it had at a time, as the log at PATH tells: after a
    reset, a deletion or an expiry that was a mistake. Offsets that it did not have then go.

    A group with members is refused, for they would commit over it: stop them, or say --force.
    Offsets of topics that do not exist any more are left out.

    \b
    Example:
      pykcoord offsets restore billing pykcoord-data --at 2h --dry-run
      pykcoord offsets restore billing pykcoord-data --at 2h --bootstrap-servers localhost:9092
    """
    if (bootstrap_servers is None) == (to_file is None) and not dry_run:
        raise click.UsageError(
            "say where the offsets go: --bootstrap-servers HOST:PORT, or --to-file FILE; or look "
            "at them with --dry-run"
        )
    past = past_of(group_id, path, on_corruption)
    then = past.at(at_ms)
    when = time_text(at_ms)
    if not then:
        raise LogError(
            f"{path}: group {group_id!r} had no offsets at {when}; `pykcoord offsets diff` shows "
            "when it had"
        )
    if bootstrap_servers is None:
        plan = Plan(then, {at: of.offset for at, of in past.at(None).items()})
        _print(plan, group_id, when)
        if not dry_run:
            assert to_file is not None
            _write(to_file, plan)
        return 0
    from pykcoord.cli.offsets.running_group import RunningGroup

    with RunningGroup.connected(bootstrap_servers, group_id) as group:
        plan = Plan(then, group.offsets())
        _print(plan, group_id, when)
        if dry_run:
            click.echo("nothing was changed: --dry-run")
            return 0
        group.make_empty(force=force)
        left_out = group.commit(plan.to_set) | group.remove(plan.to_remove)
    for (topic, partition), reason in sorted(left_out.items()):
        click.echo(f"pykcoord: left out: {topic} {partition}: {reason}", err=True)
    done = len(plan.to_set) + len(plan.to_remove) - len(left_out)
    click.echo(f"{counted(done, 'offset')} of {group_id} as at {when}")
    return 1 if left_out else 0


def _print(plan: Plan, group_id: str, when: str) -> None:
    print_listings([Listing(f"Offsets of {group_id}, back to {when}", _COLUMNS, plan.rows())])


def _write(path: Path, plan: Plan) -> None:
    """The form of Kafka's tool for one group: topic,partition,offset."""
    with open(path, "x", encoding="utf-8") as file:
        for (topic, partition), of in plan.then.items():
            file.write(f"{topic},{partition},{of.offset}\n")
    click.echo(
        f"{path}: {counted(len(plan.then), 'offset')}; next: kafka-consumer-groups "
        f"--bootstrap-server HOST:PORT --group GROUP --reset-offsets --from-file {path} --execute"
    )
    if plan.to_remove:
        click.echo(
            f"pykcoord: {counted(len(plan.to_remove), 'offset')} that the group did not have then "
            "stay: the file cannot remove any",
            err=True,
        )
