"""The fault book on the engine, in virtual time: pairs of causes are told apart, and none is found
where nothing happens."""

from __future__ import annotations

import json

import pytest

from pykcoord.explain import explain
from pykcoord.virtual import START_MS, World

from .acts import HOUR, MINUTE, SECOND, Case, another, settled
from .pairs import PAIRS

CASES = [
    pytest.param(case, id=f"{name}: {'first' if number == 0 else 'second'}")
    for name, pair in PAIRS.items()
    for number, case in enumerate(pair)
]


def test_there_are_thirty_pairs() -> None:
    assert len(PAIRS) >= 30


@pytest.mark.parametrize("case", CASES)
def test_the_true_cause_is_named_and_no_other(case: Case) -> None:
    world = World({"orders": case.partitions}, **case.settings)
    case.act(world)
    since_ms = getattr(world, "mark", START_MS)
    report = explain(world.events, "g", since_ms)
    story = "\n".join(line.text for line in report.lines)
    happened = [of for of in report.rebalances if of.started_ms >= since_ms]
    assert [of.trigger.cause for of in happened] == case.causes, story
    assert {pattern.name for pattern in report.patterns} == case.patterns, story
    assert case.says in story, story
    json.dumps(report.fields())


def test_a_group_that_nobody_ran_has_cost_nothing() -> None:
    """Partitions have no owner while a group is stopped: that is no cost of rebalances."""
    world = World({"orders": 6})
    (member,) = settled(world, 1)
    member.commit()
    since_ms = world.now_ms + 1
    world.run(SECOND)
    member.leave()
    world.run(5 * MINUTE)
    another(world)
    world.run(MINUTE)
    report = explain(world.events, "g", since_ms)
    story = "\n".join(line.text for line in report.lines)
    assert "The group had no members, and other-" in report.lines[-1].text, story
    assert "6 partitions had no owner for up to 5 min" in report.lines[-1].text, story
    assert sum(of.unowned_ms for of in report.rebalances) == 0
    assert report.fields()["abandoned_ms"] >= 6 * 5 * MINUTE


def test_nothing_is_found_in_a_quiet_week() -> None:
    world = World({"orders": 6})
    members = settled(world, 3, session_ms=1_800_000, heartbeat_ms=600_000)
    since_ms = world.now_ms + 1
    for hour in range(0, 168, 4):
        world.at(hour * HOUR, lambda: [member.commit() for member in members])
    world.run(7 * 24 * HOUR)
    report = explain(world.events, "g", since_ms)
    assert (report.rebalances, report.patterns, report.lines) == ([], [], [])
    assert explain(world.events, "g").is_healthy
