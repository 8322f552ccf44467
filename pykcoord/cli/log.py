"""`pykcoord log state|dump|verify`: a log looked at from outside, Kafka's or pykcoord's own.

Nothing here changes, creates or locks a file: it works beside a running server. (`dump` is
in `dump.py`, `import` and `export`, which make a new directory, in `transfer.py`, and `compact` in
`compact.py`.)
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from pykcoord.cli import compact, dump
from pykcoord.cli.listing import Listing, print_listings
from pykcoord.cli.opening import on_corruption_option, opened
from pykcoord.cli.state import State, state_of
from pykcoord.cli.transfer import export_log, import_log
from pykcoord.errors import LogError
from pykcoord.log import OnCorruption, verify

_path = click.argument("path", type=click.Path(exists=True, path_type=Path))
_as_json = click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")


@click.group(short_help="Look into a log, pykcoord's own or Kafka's; carry it over; compact it.")
def command() -> None:
    """Look into a log: pykcoord's own, or the __consumer_offsets of a Kafka broker; or carry it
    from one to the other.

    PATH is a data directory, one __consumer_offsets-N folder, or a .log segment file.

    \b
    Example:
      pykcoord log state pykcoord-data
    """


command.add_command(compact.command)
command.add_command(dump.command)
command.add_command(export_log)
command.add_command(import_log)


@command.command(short_help="Print the groups and offsets that a log holds.")
@_path
@_as_json
@click.option("--group", "group_id", help="Only this group, with its members.")
@on_corruption_option
def state(path: Path, as_json: bool, group_id: str | None, on_corruption: OnCorruption) -> int:
    """Replay the log at PATH and print the groups and offsets that result.

    In tables on a terminal; in plain lines where they are many, or go into a pipe or a file.

    \b
    Example:
      pykcoord log state pykcoord-data --group billing
      pykcoord log state pykcoord-data | grep orders
    """
    reader = opened(path, on_corruption)
    found = state_of(reader, group_id)
    if group_id is not None and not any(found.values()):
        raise LogError(f"{path}: no group {group_id!r} in this log")
    if as_json:
        click.echo(json.dumps(found, indent=1, ensure_ascii=False))
    else:
        _print_state(found, members=group_id is not None)
    return 0


@command.command(name="verify", short_help="Check every CRC and frame of a log.")
@_path
@_as_json
def verify_log(path: Path, as_json: bool) -> int:
    """Check every CRC and frame of the log at PATH; exit 1 where one is broken.

    \b
    Example:
      pykcoord log verify pykcoord-data
    """
    report = verify(path)
    if as_json:
        problems = [{**p._asdict(), "file": str(p.file)} for p in report.problems]
        counts = {"files": report.files, "bytes": report.size_bytes}
        counts |= {"batches": report.batches, "records": report.records}
        click.echo(json.dumps({**counts, "problems": problems}, indent=1))
    else:
        for problem in report.problems:
            click.echo(str(problem), err=True)
        verdict = "sound" if report.files else "holds no segments yet"
        if not report.sound:
            verdict = f"broken in {len(report.problems)} place(s)"
        click.echo(
            f"{path}: {verdict}: {report.files} files, {report.size_bytes} bytes, "
            f"{report.batches} batches, {report.records} records"
        )
    return 0 if report.sound else 1


def _print_state(found: State, members: bool) -> None:
    listings = [_groups_listing(found)]
    if members:
        listings += [_members_listing(group) for group in found["groups"].values()]
    print_listings([*listings, _offsets_listing(found)])


def _groups_listing(found: State) -> Listing:
    rows = []
    for group_id, group in found["groups"].items():
        interpreted = group.get("interpreted", True)
        count = str(len(group["members"])) if interpreted else "not interpreted"
        rows.append(
            [
                group_id,
                group["type"],
                group.get("state", ""),
                str(group.get("generation", "")),
                group.get("protocol") or "",
                count,
            ]
        )
    return Listing("Groups", ("group", "type", "state", "generation", "protocol", "members"), rows)


def _members_listing(group: dict[str, Any]) -> Listing:
    rows = []
    for member in group.get("members", []):
        partitions = member.get("assignment", {}).get("partitions", {})
        owned = [f"{topic} {_ranges(of)}" for topic, of in partitions.items()]
        leads = " (leader)" if member["memberId"] == group["leader"] else ""
        rows.append(
            [
                member["memberId"] + leads,
                member["groupInstanceId"] or "",
                member["clientId"],
                member["clientHost"],
                f"{member['sessionTimeoutMs']} ms",
                ", ".join(owned) or member["memberAssignment"],
            ]
        )
    columns = ("member", "instance", "client", "host", "session", "assignment")
    return Listing("Members", columns, rows)


def _offsets_listing(found: State) -> Listing:
    rows = []
    for group_id, topics in found["offsets"].items():
        for topic, partitions in topics.items():
            for partition, committed in partitions.items():
                unstable = found["unstable"].get(group_id, {}).get(topic, [])
                pending = " (a transaction is pending)" if int(partition) in unstable else ""
                epoch = committed["leaderEpoch"]
                rows.append(
                    [
                        group_id,
                        topic,
                        partition,
                        f"{committed['offset']}{pending}",
                        "" if epoch < 0 else str(epoch),
                        committed["metadata"],
                    ]
                )
    columns = ("group", "topic", "partition", "offset", "leader epoch", "metadata")
    return Listing("Offsets", columns, rows)


def _ranges(partitions: list[int]) -> str:
    """`0-2,5` for 0, 1, 2 and 5."""
    runs: list[list[int]] = []
    for partition in sorted(partitions):
        if runs and partition == runs[-1][1] + 1:
            runs[-1][1] = partition
        else:
            runs.append([partition, partition])
    return ",".join(f"{first}-{last}" if last > first else f"{first}" for first, last in runs)
