"""Options that several jobs have, and what they print: topics, settings of Kafka, tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import click

from pykcoord.cli.types import TopicType
from pykcoord.config import Config, load

__all__ = ["engine_config", "engine_options", "print_table", "topic_option"]


def topic_option(text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """`--topic`, repeatable, as the argument `topics`."""
    return click.option("--topic", "topics", type=TopicType(), multiple=True, help=text)


def engine_options(job: Callable[..., Any]) -> Callable[..., Any]:
    """`--config` and `--set`: the arguments of `engine_config`."""
    file = click.option(
        "--config",
        "config_file",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="A file in the syntax and with the names of Kafka's server.properties.",
    )
    one = click.option(
        "--set",
        "overrides",
        multiple=True,
        metavar="KEY=VALUE",
        help="One such setting; repeatable.",
    )
    return file(one(job))


def engine_config(config_file: Path | None, overrides: Sequence[str]) -> Config:
    """The settings of the coordinator; names that it does not need are reported on stderr. Raises
    ConfigError for refused ones.
    """
    text = config_file.read_text(encoding="utf-8") if config_file else ""
    config, warnings = load(text, overrides, str(config_file or ""))
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)
    return config


def print_table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table for people; numbers stand to the right, with their thousands apart."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    cells = [list(row) for row in rows]
    for at, heading in enumerate(headings):
        numbers = all(isinstance(row[at], int | float) for row in cells)
        table.add_column(heading, justify="right" if numbers else "left")
    for row in cells:
        table.add_row(*(f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row))
    Console().print(table)
