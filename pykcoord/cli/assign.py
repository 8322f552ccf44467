"""`pykcoord assign STRATEGY FILE`: what an assignor would decide for the group of a JSON file.

FILE holds `topics` (name to number of partitions, or to the racks of each) and `members` (id to a
list of topics, or to an object with `topics` and, as they apply, `ownedPartitions`, `generationId`,
`rackId`, `groupInstanceId` and `userData` in base64).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TextIO

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pykcoord.assignors import STRATEGIES, Subscription, assign, sticky_user_data
from pykcoord.cli.plain import counted
from pykcoord.consumer_protocol import TopicPartition
from pykcoord.errors import ArgumentError
from pykcoord.ranges import ranges

_FIELDS = {
    "topics",
    "ownedPartitions",
    "generationId",
    "rackId",
    "groupInstanceId",
    "userData",
}


class _Move(NamedTuple):
    partition: TopicPartition
    source: str
    # None: no member gets it in this generation.
    destination: str | None


@click.command(
    short_help="Show what an assignor would decide, and what would move.",
    epilog='FILE: {"topics": {"orders": 6}, "members": {"a": ["orders"], "b": {"topics": '
    '["orders"], "ownedPartitions": {"orders": [0, 1]}, "generationId": 4}}}; - is stdin.',
)
@click.argument("strategy", metavar="STRATEGY", type=click.Choice(STRATEGIES))
@click.argument("file", type=click.File("r", encoding="utf-8"))
@click.option("--json", "as_json", is_flag=True, help="JSON instead of a table.")
@click.option("--java", is_flag=True, help="As the Java class, its defects included.")
def command(strategy: str, file: TextIO, as_json: bool, java: bool) -> None:
    """Show what STRATEGY would assign to the members in FILE, and what would move.

    STRATEGY is range, roundrobin, sticky, cooperative-sticky, uniform or server-range.

    \b
    Example:
      echo '{"topics": {"orders": 6}, "members": {"a": ["orders"], "b": ["orders"]}}' |
        pykcoord assign range -
    """
    topics, members = _read(file, strategy)
    assignment = assign(strategy, topics, members, compat="java" if java else None)
    moves = _moves(members, assignment)
    if as_json:
        click.echo(json.dumps(_as_json(strategy, assignment, moves), indent=1, ensure_ascii=False))
    else:
        _print(members, assignment, moves)


def _read(file: TextIO, strategy: str) -> tuple[dict[str, Any], dict[str, Subscription]]:
    try:
        group = json.load(file, object_pairs_hook=_unique)
    except ValueError as error:
        raise ArgumentError(file.name, f"not JSON, or not of this form: {error}") from None
    for name in ("topics", "members"):
        if not isinstance(group, dict) or not isinstance(group.get(name), dict):
            raise ArgumentError(file.name, f"must be an object with an object {name!r}")
    members: dict[str, Subscription] = {}
    for id_, member in group["members"].items():
        try:
            members[id_] = _subscription(member, strategy)
        except (TypeError, ValueError) as error:
            raise ArgumentError(file.name, f"members: {id_!r}: {error}") from None
    return group["topics"], members


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose names differ: a member that is named twice is a mistake, not an update."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{name!r} is there twice")
        found[name] = value
    return found


def _subscription(member: Any, strategy: str) -> Subscription:
    if isinstance(member, list):
        return Subscription(member)
    if not isinstance(member, dict):
        raise TypeError(f"{member!r} is neither a list of topics nor an object")
    unknown = sorted(set(member) - _FIELDS)
    if unknown:
        raise ValueError(f"{unknown[0]!r} is not one of {', '.join(sorted(_FIELDS))}")
    owned = _owned(member.get("ownedPartitions", []))
    generation_id = member.get("generationId")
    if generation_id is not None and type(generation_id) is not int:
        raise TypeError(f"generationId: {generation_id!r} is not a whole number")
    user_data = None
    if "userData" in member:
        user_data = _base64(member["userData"])
    elif strategy == "sticky" and owned:
        user_data = sticky_user_data(owned, generation_id)
    return Subscription(
        topics=member.get("topics", []),
        owned_partitions=owned,
        generation_id=generation_id,
        rack_id=member.get("rackId"),
        user_data=user_data,
        group_instance_id=member.get("groupInstanceId"),
    )


def _owned(given: Any) -> list[TopicPartition]:
    """Of `{topic: [partition, ...]}` or `[[topic, partition], ...]`."""
    pairs = given
    try:
        if isinstance(given, dict):
            pairs = [(topic, number) for topic, numbers in given.items() for number in numbers]
        owned = [TopicPartition(topic, number) for topic, number in pairs]
        if not all(type(one.topic) is str and type(one.partition) is int for one in owned):
            raise TypeError
        if any(one.partition < 0 for one in owned):
            raise ValueError
    except (TypeError, ValueError):
        wanted = '{"orders": [0, 1]} or [["orders", 0], ["orders", 1]]'
        raise ValueError(f"ownedPartitions: {given!r} is not of the form {wanted}") from None
    return owned


def _base64(given: Any) -> bytes:
    try:
        return base64.b64decode(given, validate=True)
    except (TypeError, ValueError):
        raise ValueError(f"userData: {given!r} is not base64") from None


def _moves(
    members: Mapping[str, Subscription], assignment: Mapping[str, Iterable[TopicPartition]]
) -> list[_Move]:
    owners = {partition: member for member, list_ in assignment.items() for partition in list_}
    moves = []
    for member, subscription in members.items():
        for topic, number in subscription.owned_partitions:
            owner = owners.get(TopicPartition(topic, number))
            if owner != member:
                moves.append(_Move(TopicPartition(topic, number), member, owner))
    return moves


def _as_json(
    strategy: str, assignment: Mapping[str, list[TopicPartition]], moves: list[_Move]
) -> dict[str, Any]:
    sizes = [len(partitions) for partitions in assignment.values()]
    return {
        "strategy": strategy,
        "assignment": assignment,
        "balance": {"least": min(sizes, default=0), "most": max(sizes, default=0)},
        "moves": [
            {
                "topic": move.partition.topic,
                "partition": move.partition.partition,
                "from": move.source,
                "to": move.destination,
            }
            for move in moves
        ],
    }


def _print(
    members: Mapping[str, Subscription],
    assignment: Mapping[str, list[TopicPartition]],
    moves: list[_Move],
) -> None:
    table = Table(box=None, pad_edge=False)
    table.add_column("MEMBER")
    table.add_column("NOW", justify="right")
    table.add_column("HAD", justify="right")
    table.add_column("PARTITIONS", overflow="fold")
    table.add_column("GETS", overflow="fold")
    table.add_column("LOSES", overflow="fold")
    for member, partitions in assignment.items():
        owned = set(members[member].owned_partitions)
        gained = [partition for partition in partitions if partition not in owned]
        lost = [move.partition for move in moves if move.source == member]
        cells = (member, len(partitions), len(owned), *map(_ranges, (partitions, gained, lost)))
        table.add_row(*(escape(str(cell)) for cell in cells))
    console = Console(highlight=False, soft_wrap=False)
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        click.echo(line.rstrip())
    click.echo(_summary(members, assignment, moves))


def _summary(
    members: Mapping[str, Subscription],
    assignment: Mapping[str, list[TopicPartition]],
    moves: list[_Move],
) -> str:
    sizes = [len(partitions) for partitions in assignment.values()]
    owned = {partition for member in members.values() for partition in member.owned_partitions}
    withheld = {move.partition for move in moves if move.destination is None}
    moved = {move.partition for move in moves} - withheld
    text = (
        f"{counted(sum(sizes), 'partition')}, "
        f"{min(sizes, default=0)} to {max(sizes, default=0)} a member; "
        f"{len(owned) - len(moved) - len(withheld)} stay, {len(moved)} move"
    )
    return text + (f", {len(withheld)} go to nobody yet" if withheld else "")


def _ranges(partitions: Iterable[tuple[str, int]]) -> str:
    """`orders 0-3,7 audit 1`."""
    by_topic: dict[str, list[int]] = {}
    for topic, number in partitions:
        by_topic.setdefault(topic, []).append(number)
    return " ".join(f"{topic} {ranges(numbers)}" for topic, numbers in by_topic.items())
