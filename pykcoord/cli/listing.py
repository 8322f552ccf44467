"""Rows for people: framed tables for a few on a terminal, plain aligned lines for a pipe or many.

A framed table costs forty times as much as the lines, and programs that read a pipe want no frames.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import click

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["Listing", "framed", "print_listings"]

# The most rows that a person looks at; more are searched.
_FRAMED_ROWS = 200
# A longer cell moves what follows it in its own line only.
_WIDEST = 64
_NUMBERS = frozenset(
    {
        "generation", "members", "partition", "offset", "leader epoch", "epoch",
        "before", "after", "change", "now", "then", "end", "lag", "end age", "offsets",
        "recorded", "again", "changed",
    }
)  # fmt: skip


class Listing(NamedTuple):
    """A title, the names of the columns, and rows with a cell for each of them."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def print_listings(listings: Sequence[Listing]) -> None:
    """To stdout, one after the other."""
    if sys.stdout.isatty() and sum(len(one.rows) for one in listings) <= _FRAMED_ROWS:
        _print_framed(listings)
        return
    for number, listing in enumerate(listings):
        title = f"{listing.title}:" if listing.rows else f"{listing.title}: none"
        click.echo(f"\n{title}" if number else title)
        if listing.rows:
            click.echo("\n".join(_lines(listing)))


def framed(listing: Listing) -> Table:
    """As a table of rich, without notes where there are none: a terminal is narrow."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=listing.title, title_justify="left")
    shown = [
        at
        for at, column in enumerate(listing.columns)
        if column != "note" or any(row[at] for row in listing.rows)
    ]
    for column in (listing.columns[at] for at in shown):
        right = column in _NUMBERS
        table.add_column(column, justify="right" if right else "left", overflow="fold")
    for row in listing.rows:
        table.add_row(*(escape(row[at]) for at in shown))
    return table


def _print_framed(listings: Iterable[Listing]) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    for listing in listings:
        console.print(framed(listing) if listing.rows else f"[italic]{listing.title}: none[/]")


def _lines(listing: Listing) -> list[str]:
    """No cell is empty, and no column has a space in its name: `awk` finds the columns."""
    rows = [[column.replace(" ", "-") for column in listing.columns]]
    rows += [[_printable(cell) or "-" for cell in row] for row in listing.rows]
    right = [column in _NUMBERS for column in listing.columns]
    columns = [[_width(cell) for cell in column] for column in zip(*rows, strict=True)]
    widths = [min(max(column), _WIDEST) for column in columns]
    lines = []
    for number, row in enumerate(rows):
        cells = []
        for at, cell in enumerate(row):
            gap = " " * (widths[at] - columns[at][number])
            cells.append(gap + cell if right[at] else cell + gap)
        lines.append("  ".join(cells).rstrip())
    return lines


def _printable(cell: str) -> str:
    """A line end or an escape sequence in a group id stays within its cell."""
    return cell if cell.isprintable() else cell.encode("unicode_escape").decode()


def _width(cell: str) -> int:
    """In columns of a terminal."""
    if cell.isascii():
        return len(cell)
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in cell)
