"""What the report has beside a story: the groups that cost most, and one thing to do for each
pattern."""

from __future__ import annotations

import itertools

from pykcoord.events import Event
from pykcoord.explain import costliest
from pykcoord.explain.report import explain
from pykcoord.virtual import START_MS, World

from .pairs import PAIRS


def rebalances(group_id: str, unowned_ms: int, took_ms: int) -> list[Event]:
    figures = {"partitions": 2, "moved": 1, "least": 1, "unowned": 1, "unowned_ms": unowned_ms}
    return [
        Event("rebalance_started", group_id, 1, "member_joined", timestamp_ms=0),
        Event("join_phase_completed", group_id, 2, count=1, timestamp_ms=took_ms),
        Event("group_stable", group_id, 2, count=1, timestamp_ms=took_ms, figures=figures),
    ]


def test_the_ten_groups_that_cost_most_in_their_order() -> None:
    """By the time in which partitions had no owner, then by that in which they rebalanced."""
    events = [
        event
        for number in range(12)
        for event in rebalances(f"g{number:02}", 1_000 * (number // 2), 10 + number)
    ]
    costs = costliest(events)
    assert [one.group_id for one in costs] == [f"g{number:02}" for number in range(11, 1, -1)]
    assert (costs[0].unowned_ms, costs[0].busy_ms, costs[0].rebalances) == (5_000, 21, 1)


def test_each_pattern_has_one_suggestion_and_its_evidence() -> None:
    for case in itertools.chain.from_iterable(PAIRS.values()):
        world = World({"orders": case.partitions}, **case.settings)
        case.act(world)
        for pattern in explain(world.events, "g", getattr(world, "mark", START_MS)).patterns:
            assert pattern.evidence
            assert pattern.suggestion.endswith(".")
            assert " or " not in pattern.suggestion.replace(" or more", "")
            assert "; " not in pattern.suggestion
