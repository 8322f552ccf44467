"""What a past was like, in figures that can be compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pykcoord.events import Event
from pykcoord.explain import explain

__all__ = ["Outcome", "outcome_of"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of a group: how often it rebalanced, by cause; how long that took in all (ms); partitions
    that moved to another member, and for how long partitions had no owner (ms, summed over them),
    both but for when the group had no members;
    members that were removed because their session ended or they did not join again in time, and
    how long nothing had been heard of them (ms, summed): nobody read what they owned meanwhile.
    """

    rebalances: int
    causes: dict[str, int]
    rebalancing_ms: int
    moved: int
    unowned_ms: int
    removed: int
    silent_ms: int

    def fields(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "rebalances": self.rebalances,
            "causes": self.causes,
            "rebalancing_ms": self.rebalancing_ms,
            "moved": self.moved,
            "unowned_ms": self.unowned_ms,
            "removed": self.removed,
            "silent_ms": self.silent_ms,
        }


def outcome_of(events: Iterable[Event], group_id: str, until_ms: int | None = None) -> Outcome:
    """The figures of a group, by its events: of what began until then (ms since the epoch), and of
    what came of it."""
    events = list(events)
    end_ms = until_ms if until_ms is not None else max(one.timestamp_ms for one in events)
    rebalances = [of for of in explain(events, group_id).rebalances if of.started_ms <= end_ms]
    removed = [
        one for one in events
        if one.group_id == group_id and one.kind == "member_gone" and one.timestamp_ms <= end_ms
        and one.cause in ("session_expired", "rebalance_timeout")
    ]  # fmt: skip
    return Outcome(
        rebalances=len(rebalances),
        causes=dict(Counter(of.trigger.cause for of in rebalances).most_common()),
        rebalancing_ms=sum(of.duration_ms or 0 for of in rebalances),
        moved=sum(of.figures.get("moved", 0) for of in rebalances if not of.trigger.is_first),
        unowned_ms=sum(of.unowned_ms for of in rebalances),
        removed=len(removed),
        silent_ms=sum(one.silent_ms or 0 for one in removed),
    )
