"""Groups of a ZooKeeper as JSON and as tables."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pykcoord.cli.plain import counted, time_text
from pykcoord.consumer_protocol import TopicPartition
from pykcoord.zookeeper.groups import Group

__all__ = ["as_json", "print_groups", "unowned"]


def unowned(group: Group, topics: Mapping[str, int]) -> list[TopicPartition]:
    """Partitions that a member subscribes to and no stream owns."""
    wanted = {
        topic
        for registration in group.members.values()
        if registration is not None
        for topic in registration.streams(topics)
    }
    return [
        one
        for topic in sorted(wanted)
        for number in range(topics.get(topic, 0))
        if (one := TopicPartition(topic, number)) not in group.owners
    ]


def as_json(groups: Mapping[str, Group], topics: Mapping[str, int]) -> str:
    """All of it."""
    document = {
        "topics": dict(sorted(topics.items())),
        "groups": {name: _group(group, topics) for name, group in groups.items()},
    }
    return json.dumps(document, indent=1, ensure_ascii=False)


def _group(group: Group, topics: Mapping[str, int]) -> dict[str, Any]:
    return {
        "members": {
            consumer_id: None
            if registration is None
            else {
                "pattern": registration.pattern,
                "subscription": dict(registration.subscription),
                "timestamp": registration.timestamp,
                "version": registration.version,
            }
            for consumer_id, registration in group.members.items()
        },
        "owners": _by_topic(group.owners),
        "unowned": [list(one) for one in unowned(group, topics)],
        "offsets": _by_topic(
            {
                one: {"offset": found.offset, "modified_ms": found.modified_ms}
                for one, found in group.offsets.items()
            }
        ),
        "problems": group.problems,
    }


def _by_topic(values: Mapping[TopicPartition, Any]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for one in sorted(values):
        found.setdefault(one.topic, {})[str(one.partition)] = values[one]
    return found


def print_groups(groups: Mapping[str, Group], topics: Mapping[str, int]) -> None:
    """Tables: members of each group, and its partitions with owners and offsets."""
    if not groups:
        click.echo("no groups")
    for name, group in groups.items():
        lost = unowned(group, topics)
        tail = f", {counted(len(lost), 'partition')} owned by nobody" if lost else ""
        click.echo(
            f"{name}: {counted(len(group.members), 'member')}, "
            f"{counted(len(group.owners), 'partition')} owned, "
            f"{counted(len(group.offsets), 'offset')}{tail}"
        )
        if group.members:
            _print(("MEMBER", "PATTERN", "SUBSCRIPTION"), _member_rows(group))
        if group.offsets or group.owners or lost:
            rows = _partition_rows(group, lost)
            _print(("TOPIC", "PARTITION", "OFFSET", "WRITTEN", "OWNER"), rows)


def _member_rows(group: Group) -> Iterable[tuple[str, ...]]:
    for consumer_id, registration in sorted(group.members.items()):
        if registration is None:
            yield consumer_id, "?", "cannot be read"
            continue
        topics = " ".join(f"{topic}={n}" for topic, n in registration.subscription.items())
        yield consumer_id, registration.pattern, topics


def _partition_rows(group: Group, lost: Iterable[TopicPartition]) -> Iterable[tuple[str, ...]]:
    for one in sorted({*group.offsets, *group.owners, *lost}):
        offset = group.offsets.get(one)
        yield (
            one.topic,
            str(one.partition),
            "-" if offset is None else str(offset.offset),
            "-" if offset is None else time_text(offset.modified_ms),
            group.owners.get(one, "-"),
        )


def _print(columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
    table = Table(box=None, pad_edge=False)
    for column in columns:
        right = column in ("PARTITION", "OFFSET")
        table.add_column(column, justify="right" if right else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(escape, row))
    console = Console(highlight=False)
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        click.echo(f"  {line.rstrip()}")
