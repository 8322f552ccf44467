"""`pykcoord log state|dump|verify`: a log looked at from outside, Kafka's or pykcoord's own.

Nothing here changes, creates or locks a file: it works beside a running server. (`import` and
`export`, which make a new directory, are in `transfer.py`, and `compact` in `compact.py`.)
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pykcoord._native import dump
from pykcoord.cli import compact
from pykcoord.cli.plain import plain
from pykcoord.cli.records import decode_key, decode_value
from pykcoord.cli.state import State, state_of
from pykcoord.cli.transfer import export_log, import_log, on_corruption_option
from pykcoord.errors import LogError
from pykcoord.log import LogReader, OnCorruption, verify

_CONTROL = 1 << 5
_OUTCOMES = {"COMMIT": "committed", "ABORT": "aborted", "control": "unknown"}

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
command.add_command(export_log)
command.add_command(import_log)


@command.command(short_help="Print the groups and offsets that a log holds.")
@_path
@_as_json
@click.option("--group", "group_id", help="Only this group, with its members.")
@on_corruption_option
def state(path: Path, as_json: bool, group_id: str | None, on_corruption: OnCorruption) -> int:
    """Replay the log at PATH and print the groups and offsets that result.

    \b
    Example:
      pykcoord log state pykcoord-data --group billing
    """
    reader = _open(path, on_corruption)
    found = state_of(reader, group_id)
    if group_id is not None and not any(found.values()):
        raise LogError(f"{path}: no group {group_id!r} in this log")
    if as_json:
        click.echo(json.dumps(found, indent=1, ensure_ascii=False))
    else:
        _print_state(found, members=group_id is not None)
    return 0


@command.command(name="dump", short_help="Print every record of a log, one line each.")
@_path
@_as_json
@on_corruption_option
def dump_records(path: Path, as_json: bool, on_corruption: OnCorruption) -> int:
    """Print every record of the log at PATH, decoded, one line each.

    Bytes (subscriptions, assignments, topic ids) are shown in base64.

    \b
    Example:
      pykcoord log dump pykcoord-data/__consumer_offsets-9 --json | head
    """
    reader = _open(path, on_corruption)
    for partition in reader.partitions:
        for record in _records(reader, partition):
            click.echo(json.dumps(record, ensure_ascii=False) if as_json else _line(record))
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
        verdict = "sound" if report.sound else f"broken in {len(report.problems)} place(s)"
        click.echo(
            f"{path}: {verdict}: {report.files} files, {report.size_bytes} bytes, "
            f"{report.batches} batches, {report.records} records"
        )
    return 0 if report.sound else 1


def _open(path: Path, on_corruption: OnCorruption) -> LogReader:
    reader = LogReader.open(path, on_corruption=on_corruption)
    for cut in reader.cuts:
        click.echo(f"pykcoord: left out: {cut}", err=True)
    return reader


def _records(reader: LogReader, partition: int) -> Iterator[dict[str, Any]]:
    """Every record as the fields that are shown. A transaction's outcome stands behind it in the
    log: the markers are gathered first."""
    outcomes: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for chunk in reader.read(partition):
        for _, _, attributes, _, producer_id, _, offset, _, kind, _, _ in dump(chunk):
            if attributes & _CONTROL:
                outcomes[producer_id].append((offset, kind))
    for chunk in reader.read(partition):
        for row in dump(chunk):
            _, batch, _, epoch, producer_id, producer_epoch, offset, at_ms, kind, key, value = row
            key, value = _decoded(key, value)
            record: dict[str, Any] = {
                "partition": partition,
                "offset": offset,
                "batch": batch,
                "leaderEpoch": epoch,
                "timestamp": at_ms,
                "kind": kind,
                "key": plain(key),
                "value": plain(value),
            }
            if producer_id >= 0:
                ends = outcomes[producer_id]
                at = bisect_left(ends, (offset, ""))
                record["transaction"] = {
                    "producerId": producer_id,
                    "producerEpoch": producer_epoch,
                    "state": _OUTCOMES[ends[at][1]] if at < len(ends) else "pending",
                }
            yield record


def _decoded(
    key: dict[str, Any], value: dict[str, Any] | None
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The fields of what the core only keeps; bytes where they are not what is known here."""
    raw = key.get("raw")
    if raw is None or (fields := decode_key(raw)) is None:
        return key, value
    if value is None:
        return fields, None
    return fields, decode_value(raw, value["raw"]) or value


def _line(record: dict[str, Any]) -> str:
    value = "tombstone" if record["value"] is None else _fields(record["value"])
    line = (
        f"{record['partition']:>2} {record['offset']:>6} batch {record['batch']:<6} "
        f"{_time(record['timestamp'])} {record['kind']} {_fields(record['key'])} -> {value}"
    )
    if transaction := record.get("transaction"):
        line += f" [transaction of producer {transaction['producerId']}: {transaction['state']}]"
    return line


def _fields(fields: dict[str, Any]) -> str:
    return " ".join(f"{name}={json.dumps(of, ensure_ascii=False)}" for name, of in fields.items())


def _time(timestamp_ms: int) -> str:
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _print_state(found: State, members: bool) -> None:
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 200
    console.print(_groups_table(found))
    if members:
        for group in found["groups"].values():
            console.print(_members_table(group))
    console.print(_offsets_table(found))


def _groups_table(found: State) -> Table:
    table = _table("Groups", "group", "type", "state", "generation", "protocol", "members")
    for group_id, group in found["groups"].items():
        interpreted = group.get("interpreted", True)
        count = str(len(group["members"])) if interpreted else "not interpreted"
        table.add_row(
            escape(group_id),
            group["type"],
            group.get("state", ""),
            str(group.get("generation", "")),
            escape(group.get("protocol") or ""),
            count,
        )
    return table


def _members_table(group: dict[str, Any]) -> Table:
    table = _table("Members", "member", "instance", "client", "host", "session", "assignment")
    for member in group.get("members", []):
        partitions = member.get("assignment", {}).get("partitions", {})
        owned = [f"{topic} {_ranges(of)}" for topic, of in partitions.items()]
        leads = " (leader)" if member["memberId"] == group["leader"] else ""
        table.add_row(
            escape(member["memberId"] + leads),
            escape(member["groupInstanceId"] or ""),
            escape(member["clientId"]),
            member["clientHost"],
            f"{member['sessionTimeoutMs']} ms",
            escape(", ".join(owned) or member["memberAssignment"]),
        )
    return table


def _offsets_table(found: State) -> Table:
    table = _table("Offsets", "group", "topic", "partition", "offset", "leader epoch", "metadata")
    for group_id, topics in found["offsets"].items():
        for topic, partitions in topics.items():
            for partition, committed in partitions.items():
                unstable = found["unstable"].get(group_id, {}).get(topic, [])
                pending = " (a transaction is pending)" if int(partition) in unstable else ""
                epoch = committed["leaderEpoch"]
                table.add_row(
                    escape(group_id),
                    escape(topic),
                    partition,
                    f"{committed['offset']}{pending}",
                    "" if epoch < 0 else str(epoch),
                    escape(committed["metadata"]),
                )
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left")
    for column in columns:
        right = column in ("generation", "members", "partition", "offset", "leader epoch")
        table.add_column(column, justify="right" if right else "left", overflow="fold")
    return table


def _ranges(partitions: list[int]) -> str:
    """`0-2,5` for 0, 1, 2 and 5."""
    runs: list[list[int]] = []
    for partition in sorted(partitions):
        if runs and partition == runs[-1][1] + 1:
            runs[-1][1] = partition
        else:
            runs.append([partition, partition])
    return ",".join(f"{first}-{last}" if last > first else f"{first}" for first, last in runs)
