"""`pykcoord offsets restore`: the committed offsets of a group as they were at a time, again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pykcoord.cli.command_config import command_config_option
from pykcoord.cli.listing import Listing, print_listings
from pykcoord.cli.offsets.past import group_argument, past_of, path_argument
from pykcoord.cli.opening import on_corruption_option
from pykcoord.cli.plain import counted, time_text
from pykcoord.cli.serving import new_runner
from pykcoord.cli.types import MomentType
from pykcoord.errors import KcoordError, LogError
from pykcoord.log import OnCorruption
from pykcoord.log.copied_directory import is_copy
from pykcoord.offset_history import CommittedOffset, Offsets

if TYPE_CHECKING:
    from pykcoord.kafka.running_group import RunningGroup

__all__ = ["Plan", "command"]

_REASON = "pykcoord offsets restore --force"
# Members that were removed join again within a heartbeat: as often are they removed once more.
_TIMES = 5
_COLUMNS = ("topic", "partition", "now", "then", "change")
_DRY = "nothing was changed: --dry-run"


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
    "--bootstrap-server",
    "bootstrap_servers",
    metavar="HOST:PORT",
    help="The running coordinator of the group, which takes the offsets.",
)
@command_config_option
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
    config: Mapping[str, str],
    to_file: Path | None,
    dry_run: bool,
    force: bool,
    on_corruption: OnCorruption,
) -> int:
    """Give GROUP the committed offsets that it had at a time, as the log at PATH tells: after a
    reset, a deletion or an expiry that was a mistake. Offsets that it did not have then go.

    A group with members is refused, for they would commit over it: stop them, or say --force,
    which removes them; those that run join again, and read from the offsets that are back.
    Offsets of topics that do not exist any more are left out.

    To a Kafka that is only watched nothing is written: of what `pykcoord watch` keeps, --to-file
    makes the file that Kafka's own tool takes.

    \b
    Example:
      pykcoord offsets restore billing pykcoord-data --at 2h --dry-run
      pykcoord offsets restore billing pykcoord-data --at 2h --bootstrap-servers localhost:9092
    """
    servers = bootstrap_servers or config.get("bootstrap.servers")
    if bootstrap_servers is not None and to_file is not None:
        raise click.UsageError("--bootstrap-servers and --to-file: name one of them")
    if servers is None and to_file is None and not dry_run:
        raise click.UsageError(
            "say where the offsets go: --bootstrap-servers HOST:PORT, or --to-file FILE; or look "
            "at them with --dry-run"
        )
    if servers is not None and to_file is None and not dry_run and is_copy(path):
        raise click.UsageError(
            f"{path} is of a Kafka that is only watched, to which nothing is written: say "
            "--to-file FILE, and give that to kafka-consumer-groups --reset-offsets --from-file"
        )
    past = past_of(group_id, path, on_corruption)
    then = past.at(at_ms)
    when = time_text(at_ms)
    if not then:
        raise LogError(
            f"{path}: group {group_id!r} had no offsets at {when}; the first that is known here "
            f"was committed at {time_text(past.changes[0].at_ms)}"
        )
    if servers is None or to_file is not None:
        plan = Plan(then, {at: of.offset for at, of in past.at(None).items()})
        _print(plan, group_id, when)
        if to_file is not None and not dry_run:
            _write(to_file, plan)
        elif dry_run:
            click.echo(_DRY)
        return 0
    from pykcoord.kafka import (
        ClientProperties,
        running_group,  # Kafka's messages: a third of a second
    )

    named = {"client.id": "pykcoord-offsets", **config, "bootstrap.servers": servers}
    properties = ClientProperties.of(named)

    async def story() -> int:
        async with running_group.RunningGroup.connected(properties, group_id) as group:
            plan = Plan(then, await group.offsets())
            _print(plan, group_id, when)
            if dry_run:
                click.echo(_DRY)
                return 0
            left_out = await _change(group, plan, servers, group_id, force)
        for (topic, partition), code in sorted(left_out.items()):
            reason = running_group.reason_of(code)
            click.echo(f"pykcoord: left out: {topic} {partition}: {reason}", err=True)
        done = len(plan.to_set) + len(plan.to_remove) - len(left_out)
        are = "is as it was" if done == 1 else "are as they were"
        click.echo(f"{counted(done, 'offset')} of {group_id} {are} at {when}")
        return 1 if left_out else 0

    with new_runner() as runner:
        return runner.run(story())


async def _change(
    group: RunningGroup, plan: Plan, servers: str, group_id: str, force: bool
) -> dict[tuple[str, int], int]:
    """What was refused, with Kafka's codes. Raises KcoordError where members are in the way."""
    from pykcoord.kafka.running_group import HAS_MEMBERS

    to_set, to_remove = plan.to_set, plan.to_remove
    left_out: dict[tuple[str, int], int] = {}
    for _ in range(_TIMES if force else 1):
        members = await group.members()
        if members and not force:
            named = ", ".join(one.client_id for one in members[:3])
            raise KcoordError(
                f"{servers}: group {group_id!r} has {counted(len(members), 'member')} ({named}), "
                "which would commit over it; stop them, or say --force, which removes them"
            )
        await group.expel(members, _REASON)
        refused = await group.commit(to_set) | await group.remove(to_remove)
        in_the_way = {at for at, code in refused.items() if code in HAS_MEMBERS}
        left_out |= {at: code for at, code in refused.items() if at not in in_the_way}
        to_set = {at: of for at, of in to_set.items() if at in in_the_way}
        to_remove = [at for at in to_remove if at in in_the_way]
        if not in_the_way:
            return left_out
    raise KcoordError(
        f"{servers}: group {group_id!r} has members by now: "
        f"{counted(len(in_the_way), 'offset')} of {len(plan.rows())} were not changed; stop them, "
        "and say the same again"
    )


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
