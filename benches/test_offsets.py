"""Commits and fetches of 5 partitions, in process and on one core, against a coordinator of dicts.

A commit is timed until its reply is there: decoded, its records written and applied, and answered
when the (immediate) log says that they are durable.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benches.gate import ROUNDS, Size, best_seconds, rates, told
from benches.plain import PlainCoordinator
from benches.workload import (
    Frame,
    Host,
    batches,
    offset_commit,
    offset_fetch,
    one_member_groups,
    shuffled,
)

# Share of the rate of the coordinator of dicts, per CPU second; measured: 5 and 3 times.
LEAST_COMMITS = 3.5
LEAST_FETCHES = 2.0
TURN = 500
WAYS = ["node", "dicts"]


class Groups:
    def __init__(self, count: int) -> None:
        self.host = Host()
        self.members = shuffled(one_member_groups(self.host, count))
        self.plain = PlainCoordinator(self.members)
        self.offsets = itertools.count(1)

    def commits(self, way: str) -> Callable[[], int]:
        offset = next(self.offsets)
        return self._turns(way, [offset_commit(member, offset) for member in self.members])

    def fetches(self, way: str) -> Callable[[], int]:
        return self._turns(way, [offset_fetch(group_id) for group_id, _, _ in self.members])

    def _turns(self, way: str, frames: list[bytes]) -> Callable[[], int]:
        turns = batches(frames, TURN, self.host.next_ticket())
        self.host.skip_tickets(len(frames))
        return functools.partial(_work, self.host.turn if way == "node" else self.plain.turn, turns)


def _work(turn: Callable[[list[Frame]], int], frames: list[list[Frame]]) -> int:
    return sum(turn(batch) for batch in frames)


@pytest.fixture(scope="module")
def groups(size: Size) -> Groups:
    groups = Groups(size.of(20_000, 500))
    for way in WAYS:  # so that fetches find something
        groups.commits(way)()
    return groups


@pytest.mark.benchmark(group="commits of 5 partitions")
@pytest.mark.parametrize("way", WAYS)
def test_commits(benchmark: BenchmarkFixture, groups: Groups, way: str) -> None:
    answered = benchmark.pedantic(
        lambda work: work(), setup=lambda: ((groups.commits(way),), {}), rounds=ROUNDS
    )
    assert answered == len(groups.members)


@pytest.mark.benchmark(group="fetches of 5 partitions")
@pytest.mark.parametrize("way", WAYS)
def test_fetches(benchmark: BenchmarkFixture, groups: Groups, way: str) -> None:
    answered = benchmark.pedantic(
        lambda work: work(), setup=lambda: ((groups.fetches(way),), {}), rounds=ROUNDS
    )
    assert answered == len(groups.members)


def test_gate_commits(groups: Groups, size: Size) -> None:
    seconds = best_seconds(**{way: functools.partial(groups.commits, way) for way in WAYS})
    rate = rates(dict.fromkeys(WAYS, len(groups.members)), seconds)
    size.hold(rate["node"] >= LEAST_COMMITS * rate["dicts"], told(rate, "commits"))


def test_gate_fetches(groups: Groups, size: Size) -> None:
    seconds = best_seconds(**{way: functools.partial(groups.fetches, way) for way in WAYS})
    rate = rates(dict.fromkeys(WAYS, len(groups.members)), seconds)
    size.hold(rate["node"] >= LEAST_FETCHES * rate["dicts"], told(rate, "fetches"))


def test_both_answer_the_same(groups: Groups) -> None:
    """Both are timed at the same work."""
    member = groups.members[0]
    for frame in (offset_commit(member, 99), offset_fetch(member[0])):
        (reply,) = groups.host.ask([frame])
        assert reply == groups.plain.handle(frame)[8:]
