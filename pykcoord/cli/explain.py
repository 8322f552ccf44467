"""`pykcoord explain`: why a group rebalanced, from a running server or from a data directory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import click

from pykcoord.cli.command_config import command_config_option
from pykcoord.cli.listing import Listing, print_listings
from pykcoord.cli.offsets.past import likely
from pykcoord.cli.opening import opened
from pykcoord.cli.plain import counted, time_text
from pykcoord.cli.topic_names import topic_names
from pykcoord.cli.types import MomentType
from pykcoord.cluster.looking import is_cluster, read_cluster
from pykcoord.errors import KcoordError
from pykcoord.events import Event
from pykcoord.explain import Cost, Report, costliest, costliest_of, explain
from pykcoord.explain.logged import logged_events
from pykcoord.explain.text import duration, safe
from pykcoord.log import Past
from pykcoord.log.events import EVENTS_TOPIC, event_shards, read_events
from pykcoord.log.folders import TOPIC
from pykcoord.log.shared import open_store
from pykcoord.log.shared.events import EventObjects
from pykcoord.recorded import decode_events
from pykcoord.transfer import readable
from pykcoord.watch.lags import kept_lags

_DEFAULT_SERVER = "127.0.0.1:9092"
_COLUMNS = ("group", "rebalances", "without owner", "rebalancing", "refused", "patterns")


@click.command(short_help="Say why a group rebalanced, and what to do about it.")
@click.argument("group_id", metavar="[GROUP]", required=False)
@click.argument(
    "path", metavar="[PATH]", required=False, type=click.Path(exists=True, path_type=Path)
)
@click.option(
    "--bootstrap-servers",
    "--bootstrap-server",
    "servers",
    metavar="HOST:PORT",
    help="A running server; all of its nodes are asked. 127.0.0.1:9092 where no PATH is given.",
)
@command_config_option
@click.option(
    "--since",
    "since_ms",
    type=MomentType(),
    help="Only what happened since: how long ago (90s, 15m, 2h, 7d), or ISO 8601 "
    "(2026-11-25T08:30; UTC unless it says +01:00).",
)
@click.option("--json", "as_json", is_flag=True, help="JSON instead of sentences.")
def command(
    group_id: str | None,
    path: Path | None,
    servers: str | None,
    config: Mapping[str, str],
    since_ms: int | None,
    as_json: bool,
) -> int:
    """Say why GROUP rebalanced: a story in the order of time, then what repeats, each with one
    thing to do. Without GROUP: the ten groups that cost most.

    Read from a running server, or from the data directory PATH, running or not: pykcoord's, the
    folder of a cluster, one of `pykcoord watch`, or a Kafka broker's. The exit code is 0 where
    nothing needs to be done, 1 where something does.

    \b
    Example:
      pykcoord explain billing --bootstrap-servers 127.0.0.1:9092 --since 2h
      pykcoord explain billing pykcoord-data
      pykcoord explain pykcoord-data
    """
    if group_id is not None and path is None and servers is None:
        named = Path(group_id)
        if _is_data(named):
            group_id, path = None, named
    if path is not None and servers is not None:
        raise click.UsageError("PATH and --bootstrap-servers: name one of them")
    partitions, missing = _partitions(path, servers, config, group_id)
    for line in missing:
        click.echo(f"pykcoord: not asked: {line}", err=True)
    if group_id is None:
        costs = [one for of in partitions for one in costliest(of, since_ms=since_ms)]
        return _print_costs(costliest_of(costs), as_json)
    events = next((of for of in partitions if _has(of, group_id)), [])
    if not events:
        raise KcoordError(
            f"group {safe(group_id)}: nothing that happened to it is kept; the same command "
            "without GROUP lists the groups of which something is"
        )
    report = explain(events, group_id, since_ms)
    if as_json:
        click.echo(json.dumps(report.fields(), indent=1, ensure_ascii=True))
    else:
        _print(report)
    return 0 if report.is_healthy else 1


def _is_data(path: Path) -> bool:
    return path.is_dir() and (
        bool(event_shards(path))
        or any(path.glob("__consumer_offsets-*"))
        or is_cluster(open_store(path))
    )


def _has(events: list[Event], group_id: str) -> bool:
    return any(event.group_id == group_id for event in events)


def _partitions(
    path: Path | None, servers: str | None, config: Mapping[str, str], group_id: str | None
) -> tuple[list[list[Event]], list[str]]:
    """The events of each partition, since what concerns the coordinator stands in all of them; and
    who could not be asked."""
    if path is not None:
        if not path.is_dir():
            raise KcoordError(f"{path}: name a data directory")
        if event_shards(path):
            return [[*decode_events(records)] for records in read_events(path).values()], []
        store = open_store(path)
        if is_cluster(store):
            place = EventObjects(store, fresh_seconds=60.0)
            shards = range(read_cluster(str(path)).shards)
            return [
                place.of(shard, lambda log: [*decode_events(log.records())]) for shard in shards
            ], []
        return told_by_log(path, group_id), []
    from pykcoord.cli.events_client import fetch_events  # Kafka's messages: a third of a second

    asked = servers or config.get("bootstrap.servers") or _DEFAULT_SERVER
    try:
        served = fetch_events(asked, group_id, config)
    except KcoordError as error:
        if servers or config:
            raise
        called = f"pykcoord explain {'GROUP ' * (group_id is not None)}"
        raise KcoordError(
            f"{error} If it runs elsewhere, name it with --bootstrap-servers; a data directory is "
            f"read by `{called}DIRECTORY`"
        ) from None
    if served is None:
        raise KcoordError(
            f"{asked}: this server has no topic {EVENTS_TOPIC}. If it is Kafka: `pykcoord watch "
            f"--bootstrap-servers {asked} history` keeps what its log tells in the directory "
            f"`history`, and `pykcoord explain {'GROUP ' * (group_id is not None)}history` "
            "reads it. If it is pykcoord: set group.events.enable=true"
        )
    return [[*decode_events(records)] for records in served.partitions.values()], served.missing


def told_by_log(path: Path, group_id: str | None) -> list[list[Event]]:
    """What the log of `__consumer_offsets` tells, where no events are kept."""
    if not any(path.glob(f"{TOPIC}-*")):
        raise KcoordError(f"{path}: neither events of groups nor a log of {TOPIC} are here")
    reader, names = opened(path, "refuse"), topic_names(path)
    found: list[list[Event]] = []
    lags = kept_lags(path)
    for partition in reader.partitions if group_id is None else likely(reader, group_id):
        with readable(partition):
            events = list(logged_events(Past(reader, partition).read(), names, group_id))
        known = {event.group_id for event in events}
        events += [one for one in lags if one.group_id in known]
        found.append(sorted(events, key=lambda one: one.timestamp_ms))
        if group_id is not None and _has(events, group_id):
            break
    return found


def _print(report: Report) -> None:
    click.echo(f"Group {safe(report.group_id)}: {_summary(report)}")
    if report.is_logged:
        click.echo(
            "Told from the log of __consumer_offsets alone: heartbeats, join phases and refused "
            "requests are not in it."
        )
    if report.lines:
        click.echo()
    for line in report.lines:
        click.echo(f"{time_text(line.at_ms)}  {line.text}")
    if report.is_healthy:
        click.echo("\nNothing here needs to be done.")
        return
    click.echo("\nWhat to do:")
    for number, pattern in enumerate(report.patterns, 1):
        click.echo(f"{number}. {pattern.text}")
        click.echo(f"   {pattern.suggestion}")
        click.echo(f"   Seen: {pattern.evidence}.")


def _summary(report: Report) -> str:
    if not report.events and report.since_ms is not None:
        return f"nothing happened since {time_text(report.since_ms)}."
    text = f"{counted(len(report.rebalances), 'rebalance')}, {counted(report.events, 'event')}"
    if unowned := sum(of.unowned_ms for of in report.rebalances):
        text += f"; partitions were without an owner for {duration(unowned)}, all together"
    if abandoned := sum(of.abandoned_ms for of in report.rebalances):
        text += (
            f", and for {duration(abandoned)}"
            if unowned
            else (f"; partitions were without an owner for {duration(abandoned)}, all together,")
        )
        text += " while the group had no members"
    return f"{text}."


def _print_costs(costs: list[Cost], as_json: bool) -> int:
    if as_json:
        shown = {"groups": [cost.fields() for cost in costs]}
        click.echo(json.dumps(shown, indent=1, ensure_ascii=True))
    else:
        rows = [
            (
                safe(cost.group_id),
                str(cost.rebalances),
                duration(cost.unowned_ms),
                duration(cost.busy_ms),
                str(cost.refused),
                ", ".join(cost.patterns),
            )
            for cost in costs
        ]
        print_listings([Listing("Groups that cost most", _COLUMNS, rows)])
    return 1 if any(cost.patterns for cost in costs) else 0
