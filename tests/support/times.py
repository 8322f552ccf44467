"""Moments between two things that happen, as a command takes them."""

from __future__ import annotations

from datetime import UTC, datetime

from pykcoord.clock import Clock


def next_millisecond() -> int:
    """A time that everything before lies before, and everything behind it behind."""
    clock = Clock()
    start = clock.now_ms()
    while (now := clock.now_ms()) <= start + 1:
        pass
    return now - 1


def iso(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")
