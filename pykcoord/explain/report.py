"""The report on one group, and the groups that cost most."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pykcoord.events import Event
from pykcoord.explain.evidence import totals
from pykcoord.explain.logged_story import is_of_log
from pykcoord.explain.patterns import Pattern, patterns_of
from pykcoord.explain.rebalances import Rebalance, rebalances_of
from pykcoord.explain.story import Line, cause_sentence, course_sentence, single_lines

__all__ = ["Cost", "Report", "costliest", "costliest_of", "explain"]


@dataclass(frozen=True, slots=True)
class Report:
    """What happened to the group `group_id`: `lines` in the order of time, `rebalances`, and
    `patterns`, of which each is something to act on. `events` says how many there were."""

    group_id: str
    events: int
    lines: list[Line]
    rebalances: list[Rebalance]
    patterns: list[Pattern] = field(default_factory=list)
    since_ms: int | None = None
    is_logged: bool = False
    """Told from a log of `__consumer_offsets` alone (`pykcoord.explain.logged`)."""

    @property
    def is_healthy(self) -> bool:
        """Nothing to act on."""
        return not self.patterns

    def fields(self) -> dict[str, Any]:
        """As `pykcoord explain --json` prints it."""
        unowned = sum(of.unowned_ms for of in self.rebalances)
        abandoned = sum(of.abandoned_ms for of in self.rebalances)
        return {
            "group_id": self.group_id,
            "healthy": self.is_healthy,
            "told_by": "log" if self.is_logged else "recorder",
            "events": self.events,
            "since_ms": self.since_ms,
            "unowned_ms": unowned,
            "abandoned_ms": abandoned,
            "story": [
                {"timestamp_ms": line.at_ms, "text": line.text, **line.fields}
                for line in self.lines
            ],
            "patterns": [pattern.fields() for pattern in self.patterns],
        }


def explain(events: Iterable[Event], group_id: str, since_ms: int | None = None) -> Report:
    """The report on a group, from events of it and of others, in any order. `since_ms` (ms since
    the epoch): only what happened then or later; what happened before still names causes."""
    own = sorted(
        (event for event in events if event.group_id in (group_id, "")),
        key=lambda event: event.timestamp_ms,
    )
    rebalances = rebalances_of(own)
    shown = own if since_ms is None else [one for one in own if one.timestamp_ms >= since_ms]
    if since_ms is not None:
        rebalances = [of for of in rebalances if (of.ended_ms or of.started_ms) >= since_ms]
    first_ms = next((one.timestamp_ms for one in own if one.group_id), 0)
    told = [one for one in shown if one.group_id or one.timestamp_ms >= first_ms]
    lines = list(single_lines(told))
    lines += [Line(of.started_ms, _told(of), {"rebalance": of.fields()}) for of in rebalances]
    lines.sort(key=lambda line: line.at_ms)
    count = sum(1 for event in shown if event.group_id)
    patterns = patterns_of(shown, rebalances)
    is_logged = any(is_of_log(event) for event in own)
    return Report(group_id, count, lines, rebalances, patterns, since_ms, is_logged)


def _told(of: Rebalance) -> str:
    return f"{cause_sentence(of)} {course_sentence(of)}".rstrip()


@dataclass(frozen=True, slots=True)
class Cost:
    """What a group cost: `rebalances`, `unowned_ms` summed over partitions (but for when it had no
    members), `busy_ms` in which it rebalanced, `refused` requests, and its patterns by name."""

    group_id: str
    rebalances: int
    unowned_ms: int
    busy_ms: int
    refused: int
    patterns: tuple[str, ...]

    def fields(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "group_id": self.group_id,
            "rebalances": self.rebalances,
            "unowned_ms": self.unowned_ms,
            "busy_ms": self.busy_ms,
            "refused": self.refused,
            "patterns": list(self.patterns),
        }


def costliest(events: Iterable[Event], most: int = 10, since_ms: int | None = None) -> list[Cost]:
    """The groups that cost most, the first most: by the time in which partitions had no owner,
    then by the time in which they rebalanced."""
    by_group: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        by_group[event.group_id].append(event)
    shared = by_group.pop("", [])
    costs: list[Cost] = []
    for group_id, own in by_group.items():
        report = explain([*shared, *own], group_id, since_ms)
        if not report.events:
            continue
        refused = [
            one
            for one in own
            if one.kind == "request_refused"
            and one.member is not None
            and one.timestamp_ms >= (since_ms or 0)
        ]
        costs.append(
            Cost(
                group_id,
                len(report.rebalances),
                sum(of.unowned_ms for of in report.rebalances),
                sum(of.duration_ms or 0 for of in report.rebalances),
                sum(totals(refused).values()),
                tuple(pattern.name for pattern in report.patterns),
            )
        )
    return costliest_of(costs, most)


def costliest_of(costs: Iterable[Cost], most: int = 10) -> list[Cost]:
    """The first most of these."""
    return sorted(
        costs, key=lambda one: (-one.unowned_ms, -one.busy_ms, -one.rebalances, one.group_id)
    )[:most]
