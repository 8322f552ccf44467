"""The fault book on the engine, in virtual time: pairs of causes are told apart, and none is found
where nothing happens."""

from __future__ import annotations

import json

import pytest

from pykcoord.explain import explain
from pykcoord.virtual import START_MS, World

from .acts import HOUR, Case, settled
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
