"""`pykcoord replay`: a group's recorded past in virtual time, under other settings."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from pykcoord._native import dump
from pykcoord.catalogue import STATE_FILE, stored_topics
from pykcoord.cli.listing import Listing, print_listings
from pykcoord.cli.offsets.past import likely
from pykcoord.cli.opening import opened
from pykcoord.cli.types import MomentType
from pykcoord.errors import KcoordError
from pykcoord.events import Event
from pykcoord.explain import costliest, costliest_of
from pykcoord.explain.text import counted, duration
from pykcoord.log import Past
from pykcoord.log.events import event_shards, read_events
from pykcoord.log.state_file import StateFile
from pykcoord.recorded import decode_events
from pykcoord.replaying import (
    Outcome,
    Script,
    changes_of,
    concern,
    outcome_of,
    play,
    script_of,
    traits_of,
)  # fmt: skip


@click.command(short_help="Run a group's past again under other settings.")
@click.argument("path", metavar="LOG", type=click.Path(exists=True, path_type=Path))
@click.argument("group_id", metavar="[GROUP]", required=False)
@click.option(
    "--set", "pairs", metavar="KEY=VALUE", multiple=True, help="A setting to change; repeatable."
)
@click.option(
    "--was",
    "before",
    metavar="KEY=VALUE",
    multiple=True,
    help="A setting of the coordinator at that time that was not its default; repeatable.",
)
@click.option(
    "--since", "since_ms", type=MomentType(), help="Only what happened since, as for `explain`."
)
@click.option("--json", "as_json", is_flag=True, help="JSON instead of a table.")
def command(
    path: Path,
    group_id: str | None,
    pairs: tuple[str, ...],
    before: tuple[str, ...],
    since_ms: int | None,
    as_json: bool,
) -> int:
    """Run the recorded past of GROUP through the engine in virtual time, under other settings, and
    show both side by side: rebalances, partitions that moved, partitions without an owner. Without
    GROUP: of the ten groups that cost most.

    LOG is a data directory, of which no server needs to run. What clients did (when they came, were
    silent, and went) is taken from the record; what follows is decided anew. The column "again" has
    the same settings as then: where it differs from "recorded", so does the model from the clients.

    \b
    Settings of clients:      session.timeout.ms, static.membership=true,
                              partition.assignment.strategy
    Settings of the server:   group.rebalance.min.interval.ms, group.quarantine.flaps,
                              group.initial.rebalance.delay.ms, group.assignment.groups, ...
    Of consumer groups:       group.consumer.session.timeout.ms,
                              group.consumer.assignment.interval.ms, ..., static.membership=true
    One that the record cannot decide is refused, with the reason.

    \b
    Example:
      pykcoord replay pykcoord-data billing --set session.timeout.ms=60000
      pykcoord replay pykcoord-data billing --set static.membership=true --since 2d
    """
    if not path.is_dir() or not event_shards(path):
        raise KcoordError(
            f"{path}: no events of groups are here; name the data directory of a server"
        )
    pasts = list(_pasts(path, group_id, since_ms, before, pairs))
    if as_json:
        settings = {"set": list(pairs), "was": list(before)}
        click.echo(json.dumps(settings | {"groups": [past.fields() for past in pasts]}, indent=1))
        return 0
    if not pasts:
        raise KcoordError(f"{path}: no group has rebalanced there that can be run again so")
    if group_id is None:
        print_listings([_summary(pasts, pairs)])
    else:
        print_listings([_listing(past, pairs) for past in pasts])
    for past in pasts:
        for kind, count in sorted(past.script.left_out.items()):
            said = f"{past.script.group_id}: not run again: {kind}, {counted(count, 'time')}"
            click.echo(f"pykcoord: {said}", err=True)
    return 0


class _Past(NamedTuple):
    """A group's script, and its outcomes by name."""

    script: Script
    outcomes: dict[str, Outcome]

    def fields(self) -> dict[str, Any]:
        outcomes = {name: of.fields() for name, of in self.outcomes.items()}
        return {
            "group_id": self.script.group_id,
            **outcomes,
            "left_out": self.script.left_out,
        }


def _pasts(
    path: Path,
    group_id: str | None,
    since_ms: int | None,
    before: Sequence[str],
    pairs: Sequence[str],
) -> Iterator[_Past]:
    partitions = [[*decode_events(records)] for records in read_events(path).values()]
    names = [group_id] if group_id is not None else _costliest(partitions, since_ms)
    topics = _topics(path)
    for name in names:
        events = next((of for of in partitions if _has(of, name)), [])
        if since_ms is not None:
            events = [event for event in events if event.timestamp_ms >= since_ms]
        try:
            script = script_of(events, name, traits_of(_group_records(path, name)), topics)
        except KcoordError:
            if group_id is not None:
                raise
            continue
        if group_id is None and not concern(pairs, script):
            continue
        settings = [pair for pair in before if concern([pair], script)]
        was = changes_of(settings, script)
        changes = changes_of([*settings, *pairs], script, was)
        outcomes = {"recorded": outcome_of(events, name)}
        outcomes["again"] = outcome_of(play(script, was), name, script.end_ms)
        if pairs:
            outcomes["changed"] = outcome_of(play(script, changes), name, script.end_ms)
        yield _Past(script, outcomes)


def _costliest(partitions: Sequence[list[Event]], since_ms: int | None) -> list[str]:
    costs = [one for of in partitions for one in costliest(of, since_ms=since_ms)]
    return [one.group_id for one in costliest_of(costs)]


def _has(events: Sequence[Event], group_id: str) -> bool:
    return any(event.group_id == group_id for event in events)


_Record = tuple[int, str, Mapping[str, Any], Mapping[str, Any]]


def _group_records(path: Path, group_id: str) -> Iterator[_Record]:
    """Those that say what its members are: time in ms, kind, key and value."""
    reader = opened(path, "refuse")
    wanted = group_id.encode()
    for partition in likely(reader, group_id):
        for chunk in Past(reader, partition).read():
            if wanted not in chunk:
                continue
            for *_, at_ms, kind, key, value in dump(chunk):
                if value is None or group_id not in (key.get("group"), key.get("groupId")):
                    continue
                if kind in ("GroupMetadata", "ConsumerGroupMemberMetadata"):
                    yield at_ms, kind, key, value


def _topics(path: Path) -> dict[str, int]:
    return {topic.name: topic.partitions for topic in stored_topics(StateFile(path / STATE_FILE))}


def _listing(past: _Past, pairs: Sequence[str]) -> Listing:
    script, outcomes = past.script, past.outcomes
    title = (
        f"{script.group_id}: {duration(script.end_ms - script.start_ms)}, "
        f"{counted(len(script.processes), 'client')}{_changed(pairs)}"
    )
    causes = sorted({cause for of in outcomes.values() for cause in of.causes})
    rows = [("rebalances", *(f"{of.rebalances:,}" for of in outcomes.values()))]
    rows += [
        (f"  {cause}", *(f"{of.causes.get(cause, 0):,}" for of in outcomes.values()))
        for cause in causes
    ]
    rows += [
        ("time in rebalances", *(duration(of.rebalancing_ms) for of in outcomes.values())),
        ("partitions moved", *(f"{of.moved:,}" for of in outcomes.values())),
        ("without owner, summed", *(duration(of.unowned_ms) for of in outcomes.values())),
        ("members removed", *(f"{of.removed:,}" for of in outcomes.values())),
        ("silent before that", *(duration(of.silent_ms) for of in outcomes.values())),
    ]
    return Listing(title, ("figure", *outcomes), rows)


def _summary(pasts: Sequence[_Past], pairs: Sequence[str]) -> Listing:
    names = list(pasts[0].outcomes)
    columns = ["group", *(f"rebalances {name}" for name in names)]
    columns += [f"without owner {name}" for name in names]
    rows = [
        (
            past.script.group_id,
            *(f"{of.rebalances:,}" for of in past.outcomes.values()),
            *(duration(of.unowned_ms) for of in past.outcomes.values()),
        )
        for past in pasts
    ]
    return Listing(f"the groups that cost most{_changed(pairs)}", columns, rows)


def _changed(pairs: Sequence[str]) -> str:
    return f"; changed: {', '.join(pairs)}" if pairs else ""
