"""`pykcoord log dump`: every record of a log, decoded, one line each. Changes nothing."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from pykcoord._native import dump
from pykcoord.cli.opening import on_corruption_option, opened
from pykcoord.cli.plain import plain, time_text
from pykcoord.cli.types import MomentType
from pykcoord.errors import LogError
from pykcoord.log import LogReader, OnCorruption
from pykcoord.record_fields import decode_key, decode_value, with_protocol

_CONTROL = 1 << 5
_OUTCOMES = {"COMMIT": "committed", "ABORT": "aborted", "control": "unknown"}


@click.command(name="dump", short_help="Print the records of a log, one line each.")
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")
@click.option("--group", "group_id", help="Only records of this group.")
@click.option(
    "--since",
    "since_ms",
    type=MomentType(),
    help="Only records written since then: how long ago (90s, 15m, 2h, 7d), or a date or time in "
    "ISO 8601 (2026-11-25, 2026-11-25T08:30; UTC unless it says +01:00).",
)
@on_corruption_option
def command(
    path: Path,
    as_json: bool,
    group_id: str | None,
    since_ms: int | None,
    on_corruption: OnCorruption,
) -> int:
    """Print every record of the log at PATH, decoded, one line each.

    Subscriptions and assignments of consumers are decoded, too; other bytes are shown in base64.

    \b
    Example:
      pykcoord log dump pykcoord-data --group billing --since 2h
      pykcoord log dump pykcoord-data/__consumer_offsets-9 --json | head
    """
    reader = opened(path, on_corruption)
    found = False
    for partition in reader.partitions:
        for record in _records(reader, partition, group_id, since_ms):
            found = True
            click.echo(json.dumps(record, ensure_ascii=False) if as_json else _line(record))
    since = "" if since_ms is None else f" since {time_text(since_ms)}"
    if group_id is not None and not found:
        raise LogError(f"{path}: no record of group {group_id!r}{since} in this log")
    if since and not found:
        click.echo(f"pykcoord: {path}: no record{since}", err=True)
    return 0


def _records(
    reader: LogReader, partition: int, group_id: str | None, since_ms: int | None
) -> Iterator[dict[str, Any]]:
    """The records that are asked for, as the fields that are shown. The outcome of a transaction
    stands behind its records in the log, so the markers are gathered first."""
    outcomes: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for chunk in reader.read(partition):
        for _, _, attributes, _, producer_id, _, offset, _, kind, _, _ in dump(chunk):
            if attributes & _CONTROL:
                outcomes[producer_id].append((offset, kind))
    for chunk in reader.read(partition):
        for row in dump(chunk):
            _, batch, _, epoch, producer_id, producer_epoch, offset, at_ms, kind, key, value = row
            if since_ms is not None and at_ms < since_ms:
                continue
            key, value = _decoded(key, value)
            if group_id is not None and group_id not in (key.get("group"), key.get("groupId")):
                continue
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
    """The fields of a record that the core keeps without interpreting it; bytes where they cannot
    be decoded."""
    raw = key.get("raw")
    if raw is None or (fields := decode_key(raw)) is None:
        return key, None if value is None else with_protocol(value)
    if value is None:
        return fields, None
    decoded = decode_value(raw, value["raw"])
    return fields, value if decoded is None else with_protocol(decoded)


def _line(record: dict[str, Any]) -> str:
    value = "tombstone" if record["value"] is None else _fields(record["value"])
    line = (
        f"{record['partition']:>2} {record['offset']:>6} batch {record['batch']:<6} "
        f"{time_text(record['timestamp'])} {record['kind']} {_fields(record['key'])} -> {value}"
    )
    if transaction := record.get("transaction"):
        line += f" [transaction of producer {transaction['producerId']}: {transaction['state']}]"
    return line


def _fields(fields: dict[str, Any]) -> str:
    return " ".join(f"{name}={json.dumps(of, ensure_ascii=False)}" for name, of in fields.items())
