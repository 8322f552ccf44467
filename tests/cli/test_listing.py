"""Rows for people: what a table on a terminal shows."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from pykcoord.cli.listing import Listing, framed

COLUMNS = ("group", "type", "state", "epoch", "members", "offsets", "lag", "end age", "note")
ROW = ("shipping", "consumer", "Stable", "12", "2", "14", "1130", "0.2s")


@pytest.mark.parametrize("note", ["", "lag of 1 not known"])
def test_notes_take_no_room_where_there_are_none(note: str) -> None:
    out = io.StringIO()
    Console(file=out, width=80).print(framed(Listing("Groups", COLUMNS, [(*ROW, note)])))
    assert ("note" in out.getvalue()) == bool(note)
    if not note:
        assert all(f" {cell} " in out.getvalue() for cell in (*ROW, *COLUMNS[:-1]))
