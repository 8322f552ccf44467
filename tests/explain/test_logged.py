"""What the log alone tells: nothing that it cannot know, and nothing that is not so."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path

import pytest

from pykcoord.cli.topic_names import topic_names
from pykcoord.explain import Report, explain
from pykcoord.explain.logged import logged_events
from pykcoord.log import LogReader
from pykcoord.virtual import World
from pykcoord.watch import WatchedState

from .acts import HOUR, Case, settled
from .logs import both, told_by_log
from .pairs import PAIRS

CASES = [
    pytest.param(case, id=f"{name}: {'first' if number == 0 else 'second'}")
    for name, pair in PAIRS.items()
    for number, case in enumerate(pair)
]
# Of these pairs the log has the same records, but for times and ids.
ALIKE = [
    "left with a reason or without",
    "left by a slow poll loop or on purpose",
    "removed by an administrator or left",
    "died, or died while the coordinator changed",
    "never syncs, or dies later",
    "no common assignor, or the group is full",
    "a session timeout out of bounds, or no common assignor",
    "deleted or expired",
    "consumer protocol: killed or left",
    "many die, or many leave",
]
SEGMENTS = Path(__file__).parents[1] / "segments"


def shape(report: Report) -> list[str]:
    """Its lines without times, and without which member it is."""
    text = [re.sub(r"\d[\d.]* s\b", "N s", line.text) for line in report.lines]
    return [re.sub(r"(app-\d|instance \w+)\S* at \S+\d", "M", line) for line in text]


@pytest.mark.parametrize("name", ALIKE)
def test_what_the_log_cannot_tell_apart_is_told_alike(name: str) -> None:
    first, second = (shape(both(case)[1]) for case in PAIRS[name])
    assert first == second
    recorded = [shape(both(case)[0]) for case in PAIRS[name]]
    assert recorded[0] != recorded[1]


@pytest.mark.parametrize("case", CASES)
def test_the_log_tells_nothing_that_the_recorder_does_not_know(case: Case) -> None:
    recorded, logged = both(case)
    story = "\n".join(line.text for line in logged.lines)
    found = {pattern.name for pattern in logged.patterns}
    assert found <= {pattern.name for pattern in recorded.patterns}, story
    known = {of.generation_after: of for of in recorded.rebalances}
    for of in logged.rebalances:
        same = known[of.generation_after]
        assert of.trigger.cause.startswith("logged_")
        assert of.kind == same.kind
        if of.kind == "classic":
            moves = [(one.members, one.figures.get("moved", 0)) for one in (of, same)]
            assert moves[0] == moves[1], story
            assert of.joined_ms == same.joined_ms, story
            assert of.ended_ms == same.ended_ms, story
        else:
            for figure in ("moved", "least", "longest_ms"):
                assert of.figures.get(figure) == same.figures.get(figure), (figure, story)
    words = ("session", "poll()", "administrator", "It says", "waited", "heard", "asked for")
    assert not [one for one in words if one in story], story
    json.dumps(logged.fields())


def test_each_rebalance_that_was_assigned_is_in_the_log() -> None:
    for case in itertools.chain.from_iterable(PAIRS.values()):
        recorded, logged = both(case)
        since_ms = recorded.since_ms or 0
        new = [of for of in recorded.rebalances if of.started_ms >= since_ms]
        ended = {of.generation_after for of in new if of.ended_ms is not None}
        found = {of.generation_after for of in logged.rebalances}
        assert ended <= found, (ended - found, [line.text for line in recorded.lines])


def test_nothing_is_found_in_a_quiet_week() -> None:
    world = World({"orders": 6})
    members = settled(world, 3, session_ms=1_800_000, heartbeat_ms=600_000)
    since_ms = world.now_ms + 1
    for hour in range(0, 168, 4):
        world.at(hour * HOUR, lambda: [member.commit() for member in members])
    world.run(7 * 24 * HOUR)
    report = explain(told_by_log(world), "g", since_ms)
    assert (report.rebalances, report.patterns, report.lines) == ([], [], [])


@pytest.mark.parametrize(
    "name", ["classic-1", "classic-2", "consumer-1", "migration-1", "migration-3", "restarts-1"]
)
def test_members_and_generations_are_those_of_a_replay(name: str) -> None:
    """Of logs that Kafka's broker wrote: who has come and not gone is who is there."""
    reader, names = LogReader.open(SEGMENTS / name), topic_names(SEGMENTS / name)
    state = WatchedState()
    seen = 0
    for partition in reader.partitions:
        replayed = state.begin(partition)
        for chunk in reader.read(partition):
            replayed.replay(chunk)
        events = list(logged_events(reader.read(partition), names))
        for group in replayed.groups(names):
            if group.type not in ("classic", "consumer") or group.epoch is None:
                continue
            report = explain(events, group.group_id)
            told = [of.generation_after for of in report.rebalances if of.generation_after]
            assert not told or told[-1] == group.epoch, group.group_id
            there: set[str] = set()
            for event in (one for one in events if one.group_id == group.group_id):
                member = event.member.member_id if event.member is not None else ""
                if event.kind in ("member_joined", "instance_replaced"):
                    there.add(member)
                    there.discard(event.detail or "")
                elif event.kind == "member_gone":
                    there.discard(member)
            assert there == {one.member_id for one in group.members}, group.group_id
            seen += 1
    assert seen
