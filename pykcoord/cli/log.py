"""`pykcoord log state|dump|verify`: a log looked at from outside, Kafka's or pykcoord's own.

Nothing here changes, creates or locks a file: it works beside a running server. (`dump` is
in `dump.py`, `import` and `export`, which make a new directory, in `transfer.py`, and `compact` in
`compact.py`.)
"""

from __future__ import annotations

import json
from pathlib import Path

import click

from pykcoord.cli import compact, dump
from pykcoord.cli.opening import on_corruption_option, opened
from pykcoord.cli.plain import counted
from pykcoord.cli.state import state_of
from pykcoord.cli.state_listing import print_state
from pykcoord.cli.topic_names import topic_names
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
    found = state_of(reader, group_id, topic_names(path))
    if group_id is not None and not any(found.values()):
        raise LogError(f"{path}: no group {group_id!r} in this log")
    if as_json:
        click.echo(json.dumps(found, indent=1, ensure_ascii=False))
    else:
        print_state(found, members=group_id is not None)
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
            verdict = f"broken in {counted(len(report.problems), 'place')}"
        click.echo(
            f"{path}: {verdict}: {counted(report.files, 'file')}, "
            f"{counted(report.size_bytes, 'byte')}, {counted(report.batches, 'batch')}, "
            f"{counted(report.records, 'record')}"
        )
    return 0 if report.sound else 1
