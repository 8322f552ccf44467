"""`pykcoord lab`: the rebalancing schemes side by side, on real servers.

It starts what it needs (a ZooKeeper and a Kafka 0.8.2.2 broker from Maven's jars, `pykcoord
serve`), and ends it. docs/schemes.md is made of a run of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from pykcoord.cli.lab.jars import library_directory
from pykcoord.cli.running import interrupted_by_signals
from pykcoord.clock import monotonic_seconds
from pykcoord.errors import KcoordError

_SIZES = (10, 20, 50, 100, 200, 500)
_SMALLEST = 4
_LARGEST = 500


@click.command(short_help="Measure and draw what each rebalancing scheme costs.")
@click.argument("part", type=click.Choice(["herd", "split-brain", "all"]), default="all")
@click.argument(
    "directory", type=click.Path(file_okay=False, path_type=Path), default="pykcoord-lab"
)
@click.option(
    "--members",
    type=click.IntRange(_SMALLEST, _LARGEST),
    default=50,
    show_default=True,
    help="Of the largest group. Above 50 by light members, which send the same requests.",
)
def command(part: str, directory: Path, members: int) -> int:
    """Run the rebalancing schemes side by side: consumers that coordinate through a real ZooKeeper,
    classic groups, and consumer groups. Writes lab.html, lab.json and pictures to DIRECTORY.

    \b
    herd         one of many members leaves: who is woken, what it costs
    split-brain  a ZooKeeper server in the past; a member cut off from its coordinator

    Needs Java 17 and Maven. Everything with 50 members takes some minutes, herd with 500 about a
    quarter of an hour.

    \b
    Example:
      pykcoord lab herd --members 10
    """
    if importlib.util.find_spec("kazoo") is None:
        raise KcoordError("kazoo is needed: pip install 'pykcoord[zookeeper]'")
    library_directory("zookeeper")
    if part != "herd":
        library_directory("kafka082")
    directory.mkdir(parents=True, exist_ok=True)
    with interrupted_by_signals(), _silent("kazoo", "pykcoord.zookeeper"):
        found = _run(part, members)
    _write(directory, found)
    click.echo(f"{directory / 'lab.html'}: the page; {directory / 'lab.json'}: the numbers")
    return 0


def sizes_up_to(members: int) -> list[int]:
    """The sizes of groups that are measured."""
    return [size for size in _SIZES if size < members] + [members]


@contextlib.contextmanager
def _silent(*names: str) -> Iterator[None]:
    """Without their warnings: what they warn of is what is measured."""
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _run(part: str, members: int) -> dict[str, Any]:
    from pykcoord.cli.lab.herd import run_herd
    from pykcoord.cli.lab.split import run_split_brain

    began = monotonic_seconds()

    def progress(text: str) -> None:
        click.echo(f"[{monotonic_seconds() - began:4.0f} s] {text}", err=True)

    found: dict[str, Any] = {
        "about": f"pykcoord lab {part}, up to {members} members, on this machine, with everything "
        "on it: counts are exact, times are of this machine."
    }
    with tempfile.TemporaryDirectory(prefix="pykcoord-lab-") as name:
        work = Path(name)
        if part != "split-brain":
            rows = asyncio.run(run_herd(work, sizes_up_to(members), progress))
            found["herd"] = [row.document() for row in rows]
        if part != "herd":
            found["split_brain"] = asyncio.run(run_split_brain(work, progress))
    found["seconds"] = round(monotonic_seconds() - began, 1)
    progress("done")
    return found


def _write(directory: Path, found: dict[str, Any]) -> None:
    from pykcoord.cli.lab.page import html_page, pictures

    texts = {"lab.json": json.dumps(found, indent=1) + "\n", "lab.html": html_page(found)}
    for name, text in {**texts, **pictures(found)}.items():
        beside = directory / f".{name}.partial"
        beside.write_text(text)
        beside.replace(directory / name)
