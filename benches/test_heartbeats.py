"""Heartbeats of 100,000 one-member groups in random order, in process and on one core.

Compared with a coordinator of Python dicts that is given the same frames. Kafka 4.3.1's own shard
with its timer was measured at 0.74 M/s, its whole service at 0.43 M/s (not measured here).
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benches.gate import ROUNDS, Size, best_seconds, rates, told
from benches.plain import PlainCoordinator
from benches.workload import (
    NOW_MS,
    Frame,
    Host,
    Member,
    batches,
    heartbeat,
    one_member_groups,
    shuffled,
)

# Share of the rate of the coordinator of dicts, per CPU second: with one call for each frame, and
# with arrays.
LEAST_IN_FRAMES = 3.0
LEAST_IN_ARRAYS = 4.0
WAYS = ["step of 64", "step of 2000", "heartbeat_many", "dicts"]


class Groups:
    """One host with its groups, and the same heartbeats in each form."""

    def __init__(self, count: int) -> None:
        self.host = Host()
        self.members = shuffled(one_member_groups(self.host, count))
        self.plain = PlainCoordinator(self.members)
        self.frames = [heartbeat(member) for member in self.members]

    def prepare(self, way: str) -> Callable[[], int]:
        """The work of one heartbeat of each group; returns how many were answered."""
        if way == "heartbeat_many":
            columns = [list(column) for column in zip(*self.members, strict=True)]
            return lambda: len(self.host.node.heartbeat_many(NOW_MS, *columns)) // 2
        if way == "dicts":
            return functools.partial(_turns, self.plain.turn, batches(self.frames, 2_000))
        size = int(way.rpartition(" ")[2])
        turns = batches(self.frames, size, self.host.next_ticket())
        self.host.skip_tickets(len(self.frames))
        return functools.partial(_turns, self.host.turn, turns)


def _turns(turn: Callable[[list[Frame]], int], frames: list[list[Frame]]) -> int:
    return sum(turn(batch) for batch in frames)


@pytest.fixture(scope="module")
def groups(size: Size) -> Groups:
    return Groups(size.of(100_000, 1_000))


@pytest.mark.benchmark(group="heartbeats of one-member groups")
@pytest.mark.parametrize("way", WAYS)
def test_heartbeats(benchmark: BenchmarkFixture, groups: Groups, way: str) -> None:
    answered = benchmark.pedantic(
        lambda work: work(), setup=lambda: ((groups.prepare(way),), {}), rounds=ROUNDS
    )
    assert answered == len(groups.members)


def test_gate_heartbeats(groups: Groups, size: Size) -> None:
    seconds = best_seconds(**{way: functools.partial(groups.prepare, way) for way in WAYS})
    rate = rates(dict.fromkeys(WAYS, len(groups.members)), seconds)
    summary = told(rate, "heartbeats")
    size.hold(rate["step of 2000"] >= LEAST_IN_FRAMES * rate["dicts"], summary)
    size.hold(rate["heartbeat_many"] >= LEAST_IN_ARRAYS * rate["dicts"], summary)


def test_heartbeats_are_answered_by_what_they_say(groups: Groups) -> None:
    """The benchmark times real heartbeats: an unknown member and an old generation are refused."""
    group_id, member_id, generation_id = groups.members[0]
    rows: list[Member] = [
        (group_id, member_id, generation_id),
        (group_id, member_id, generation_id - 1),
        (group_id, "stranger", generation_id),
    ]
    columns = [list(column) for column in zip(*rows, strict=True)]
    codes = groups.host.node.heartbeat_many(NOW_MS, *columns)
    assert [*memoryview(codes).cast("h")] == [0, 22, 25]
