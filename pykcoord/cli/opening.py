"""How commands that look into a log open it."""

from __future__ import annotations

from pathlib import Path

import click

from pykcoord.cli.transfer import on_corruption_option
from pykcoord.log import LogReader, OnCorruption

__all__ = ["on_corruption_option", "opened"]


def opened(path: Path, on_corruption: OnCorruption) -> LogReader:
    """The log at `path`; stderr names damage that was skipped. Raises as LogReader."""
    reader = LogReader.open(path, on_corruption=on_corruption)
    for cut in reader.cuts:
        click.echo(f"pykcoord: left out: {cut.unread}", err=True)
    return reader
