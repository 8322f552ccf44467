"""What patterns are made of: the past of a group, and how often something happened in it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pykcoord.events import Event
from pykcoord.explain.rebalances import Rebalance
from pykcoord.explain.text import who

__all__ = ["Past", "Pattern", "burst_of", "grouped", "pattern_of", "totals"]


@dataclass(frozen=True, slots=True)
class Pattern:
    """What repeats. `name` is one of `PATTERNS`; times in ms since the epoch."""

    name: str
    text: str
    suggestion: str
    evidence: str
    since_ms: int
    until_ms: int
    count: int

    def fields(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "pattern": self.name,
            "text": self.text,
            "suggestion": self.suggestion,
            "evidence": self.evidence,
            "since_ms": self.since_ms,
            "until_ms": self.until_ms,
            "count": self.count,
        }


@dataclass(frozen=True, slots=True)
class Past:
    """The events of a group in the order of time, and its rebalances."""

    events: Sequence[Event]
    rebalances: Sequence[Rebalance]

    @property
    def is_logged(self) -> bool:
        """Only a log tells of it."""
        return any(of.is_logged for of in self.rebalances)

    @property
    def is_consumer(self) -> bool:
        """Its last rebalance was of the consumer protocol."""
        return bool(self.rebalances) and self.rebalances[-1].kind == "consumer"

    def of(self, *kinds: str) -> list[Event]:
        """The events of these kinds."""
        return [event for event in self.events if event.kind in kinds]


def grouped(events: Sequence[Event]) -> dict[str, list[Event]]:
    """By who their members are, beyond one life of them."""
    found: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        if event.member is not None:
            found[who(event.member)].append(event)
    return found


def burst_of(events: Sequence[Event], within_ms: int, least: int) -> list[Event]:
    """The longest run of at least so many in that time."""
    best: list[Event] = []
    start = 0
    for end in range(len(events)):
        while events[end].timestamp_ms - events[start].timestamp_ms > within_ms:
            start += 1
        if end - start + 1 > len(best):
            best = list(events[start : end + 1])
    return best if len(best) >= least else []


def pattern_of(
    name: str, events: Sequence[Event], text: str, suggestion: str, evidence: str
) -> Pattern:
    """What repeats, as these events show it."""
    first, last = events[0].timestamp_ms, events[-1].timestamp_ms
    return Pattern(name, text, suggestion, evidence, first, last, len(events))


def totals(events: Sequence[Event]) -> dict[tuple[str, str, int], int]:
    """Of events that are told the first, second, fourth ... time: how often in all, at least."""
    found: dict[tuple[str, str, int], int] = {}
    for event in events:
        assert event.member is not None
        key = (event.member.member_id, event.cause or "", event.generation_id)
        found[key] = max(found.get(key, 0), event.count or 1)
    return found
