"""From events to a picture of time: the generations of a group, and the gaps between them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pykcoord.events import REBALANCE_STARTS, Event

__all__ = ["spans"]

Span = dict[str, Any]


def spans(events: Sequence[Event]) -> list[Span]:
    """Spans in the order of time: `from_ms`, `to_ms` (None: it lasts), `what` (`stable`,
    `rebalancing`, or `empty`), `generation` and, of rebalances, `cause` and the `client_id` that
    caused it. A consumer group goes on while it rebalances: its span ends with the last member that
    has come to its target."""
    found: list[Span] = []
    for event in events:
        if event.kind in REBALANCE_STARTS:
            _end(found, event.timestamp_ms)
            found.append(_span("rebalancing", event))
        elif event.kind == "join_phase_completed" and event.count == 0:
            _end(found, event.timestamp_ms)
            found.append(_span("empty", event))
        elif event.kind == "group_stable":
            _end(found, event.timestamp_ms)
            found.append(_span("stable", event))
        elif event.kind == "member_reconciled":
            _reconciled(found, event)
        elif event.kind == "group_deleted":
            _end(found, event.timestamp_ms)
    return found


def _span(what: str, event: Event) -> Span:
    return {
        "what": what,
        "from_ms": event.timestamp_ms,
        "to_ms": None,
        "generation": event.generation_id,
        "cause": event.cause if what == "rebalancing" else None,
        "client_id": event.member.client_id if event.member is not None else None,
    }


def _end(found: list[Span], at_ms: int) -> None:
    if found and found[-1]["to_ms"] is None:
        found[-1]["to_ms"] = at_ms


def _reconciled(found: list[Span], event: Event) -> None:
    """Of several members the last counts: what is stable begins anew with each."""
    if found and found[-1]["what"] == "stable":
        if len(found) < 2 or found[-2]["generation"] != event.generation_id:
            return
        found[-2]["to_ms"] = found[-1]["from_ms"] = event.timestamp_ms
        return
    if found and found[-1]["what"] == "rebalancing":
        _end(found, event.timestamp_ms)
        found.append(_span("stable", event) | {"client_id": None})
