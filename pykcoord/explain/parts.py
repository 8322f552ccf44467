"""Sentences on what came of a rebalance that a record and a log alone both can tell."""

from __future__ import annotations

from collections.abc import Iterator

from pykcoord.explain.rebalances import Rebalance
from pykcoord.explain.text import counted, duration, member_text

__all__ = ["WAIT_MS", "moved_partitions", "numbers", "waited_for"]

WAIT_MS = 200
"""Less is not worth a word."""


def numbers(of: Rebalance) -> str:
    """The generations or epochs that it led from and to."""
    before, after = of.generation_before, of.generation_after
    name = "Epoch" if of.kind == "consumer" else "Generation"
    return f"{name} {before} to {after}" if after is not None else f"{name} {before}"


def waited_for(of: Rebalance) -> Iterator[str]:
    """Members whose partitions others waited for."""
    for member, partitions, waited_ms in of.revoked:
        if waited_ms >= WAIT_MS:
            what = counted(partitions, "partition")
            yield f"{duration(waited_ms)} until {member_text(member)} had given up {what}."


def moved_partitions(of: Rebalance) -> Iterator[str]:
    """What moved, and for how long nobody owned it."""
    figures = of.figures
    if not figures:
        return
    if of.kind == "classic":
        moved, least = figures.get("moved", 0), figures.get("least", 0)
        all_of = counted(figures.get("partitions", 0), "partition")
        yield f"{moved:,} of {all_of} moved, {least:,} had to."
    elif figures.get("moved"):
        had_to = figures.get("least", 0)
        yield f"{counted(figures['moved'], 'partition')} moved, {had_to:,} had to."
    if unowned := figures.get("unowned", 0):
        longest = duration(max(figures.get("longest_ms", 0), 10))
        yield f"{counted(unowned, 'partition')} had no owner for up to {longest}."
