"""Assignors of one's own as server assignors of consumer groups: asked by the real engine, and
replaced where they fail, while everybody else is served."""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from pykcoord import Assignor, Config, Coordinator, Shard
from pykcoord.assignors import Subscription
from pykcoord.errors import ArgumentError, ConfigError

from .test_consumer_groups import beat
from .test_consumer_member import eventually

SECONDS = 60.0
Assigned = Mapping[str, Iterable[tuple[str, int]]]
Function = Callable[[Mapping[str, int], Mapping[str, Subscription]], Any]


class Own(Assignor):
    """Does what it is told to, and remembers what it was asked."""

    name = "own"

    def __init__(self, function: Function) -> None:
        self.function = function
        self.asked: list[tuple[dict[str, int], dict[str, Subscription]]] = []

    def assign(self, topics: Mapping[str, int], members: Mapping[str, Subscription]) -> Assigned:
        self.asked.append((dict(topics), dict(members)))
        assigned: Assigned = self.function(topics, members)
        return assigned


def all_to_last(topics: Mapping[str, int], members: Mapping[str, Subscription]) -> Assigned:
    every = [(topic, number) for topic, count in topics.items() for number in range(count)]
    return {max(members): every}


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[..., Coordinator]]:
    coordinators: list[Coordinator] = []

    def opened(*assignors: str | Assignor, timeout_ms: int = 60_000) -> Coordinator:
        config = Config(
            group_consumer_assignment_interval_ms=0,
            group_consumer_assignor_timeout_ms=timeout_ms,
        )
        coordinator = Coordinator(
            tmp_path / "data", topics={"orders": 4}, config=config, assignors=assignors
        )
        coordinator.start()
        coordinators.append(coordinator)
        return coordinator

    yield opened
    for coordinator in coordinators:
        coordinator.close()


def targets(coordinator: Coordinator) -> dict[str, list[int]]:
    return {
        row["member_id"]: [n for topic in row["target_partitions"] for n in topic["partitions"]]
        for row in coordinator.members().to_pylist()
    }


def epochs(coordinator: Coordinator) -> tuple[int, int]:
    (group,) = coordinator.groups().to_pylist()
    return group["group_epoch"], group["assignment_epoch"]


def are_computed(coordinator: Coordinator) -> bool:
    group_epoch, assignment_epoch = epochs(coordinator)
    return group_epoch == assignment_epoch


def findings(coordinator: Coordinator, run: Callable[[], None], count: int) -> list[str]:
    """The details of the first findings about assignors, from when `run` begins."""
    with coordinator.events() as events:
        run()
        found = (event.detail or "" for event in events if event.cause == "assignor_replaced")
        return [*itertools.islice(found, count)]


def test_it_is_asked_with_members_and_their_targets(opened: Callable[..., Coordinator]) -> None:
    own = Own(all_to_last)
    coordinator = opened(own, "uniform")
    beat(coordinator, "a", 0, rack_id="r1")
    eventually(lambda: targets(coordinator) == {"a": [0, 1, 2, 3]})
    beat(coordinator, "b", 0, instance_id="i")
    eventually(lambda: targets(coordinator) == {"a": [], "b": [0, 1, 2, 3]})
    assert coordinator.groups()["assignor"].to_pylist() == ["own"]
    topics, members = own.asked[-1]
    assert topics == {"orders": 4}
    assert [*members] == ["a", "b"]
    assert members["a"].owned_partitions == [("orders", number) for number in range(4)]
    assert (members["a"].topics, members["a"].rack_id) == (["orders"], "r1")
    assert members["b"].owned_partitions == []
    assert members["b"].group_instance_id == "i"


def test_a_member_may_name_another(opened: Callable[..., Coordinator]) -> None:
    own = Own(all_to_last)
    coordinator = opened("range", own)
    beat(coordinator, "a", 0)
    assert own.asked == [], "the first is for those who name none"
    beat(coordinator, "a", 2, server_assignor="own")
    eventually(lambda: len(own.asked) == 1)


def fails(topics: Any, members: Any) -> Any:
    raise RuntimeError("out of ideas")


def exits(topics: Any, members: Any) -> Any:
    sys.exit(3)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (fails, "own: RuntimeError: out of ideas"),
        (exits, "own: SystemExit: 3"),
        (lambda topics, members: None, "own: gives a NoneType, not a mapping"),
        (lambda topics, members: {"a": 5}, "own: gives 'a' 5, not a list of (topic, partition)"),
        (lambda topics, members: {"a": [("orders", 2**40)]}, "not a list of (topic, partition)"),
        (lambda topics, members: {"stranger": []}, 'own: "stranger" is not a member'),
        (lambda topics, members: {"a": [("orders", 4)]}, "own: orders-4 does not exist"),
        (lambda topics, members: {"a": [("orders", 0)] * 2}, "own: orders-0 is given twice"),
        (lambda topics, members: {"a": itertools.repeat(("orders", 0))}, "orders-0 is given twice"),
        (lambda topics, members: {}, "own: 4 of 4 partitions are given to nobody"),
    ],
)  # fmt: skip
def test_uniform_takes_the_place_of_one_that_fails(
    opened: Callable[..., Coordinator], function: Function, reason: str
) -> None:
    own = Own(function)
    coordinator = opened(own)

    def run() -> None:
        beat(coordinator, "a", 0)
        eventually(lambda: targets(coordinator) == {"a": [0, 1, 2, 3]})

    (told,) = findings(coordinator, run, 1)
    assert reason in told
    # It is asked again for the next target.
    own.function = all_to_last
    beat(coordinator, "b", 0)
    eventually(lambda: targets(coordinator) == {"a": [], "b": [0, 1, 2, 3]})


def test_one_that_is_slow_holds_nobody_up(opened: Callable[..., Coordinator]) -> None:
    may_end = threading.Event()

    def slow(topics: Mapping[str, int], members: Mapping[str, Subscription]) -> Assigned:
        may_end.wait(SECONDS)
        return all_to_last(topics, members)

    own = Own(slow)
    coordinator = opened(own, "uniform")
    answer = beat(coordinator, "a", 0)
    eventually(lambda: len(own.asked) == 1)
    beat(coordinator, "a", answer.member_epoch)  # its own group
    with coordinator.join("others", ["orders"]) as member:
        member.commit({("orders", 0): 1})
    assert not are_computed_of(coordinator, "billing")
    may_end.set()
    eventually(lambda: targets(coordinator) == {"a": [0, 1, 2, 3]})


def are_computed_of(coordinator: Coordinator, group_id: str) -> bool:
    rows = {row["group_id"]: row for row in coordinator.groups().to_pylist()}
    return bool(rows[group_id]["group_epoch"] == rows[group_id]["assignment_epoch"])


def test_calls_that_never_come_back_are_few(opened: Callable[..., Coordinator]) -> None:
    may_end = threading.Event()
    own = Own(lambda topics, members: may_end.wait(SECONDS))
    coordinator = opened(own, timeout_ms=50)

    # A call may come before the one that hangs has hung for long enough, and waits behind it.
    jobs = 4 * 3 + 4

    def run() -> None:
        for number in range(jobs):
            beat(coordinator, f"m{number}", 0)
            eventually(lambda: are_computed(coordinator))

    try:
        told = findings(coordinator, run, jobs)
    finally:
        may_end.set()
    assert "own: no answer in 50 ms, group.consumer.assignor.timeout.ms" in told
    assert told[-1] == "own: 3 calls of it have not come back"
    assert len(own.asked) <= 4


def test_what_cannot_be_a_server_assignor(tmp_path: Path) -> None:
    class Sharing(Own):
        shares_partitions = True

    class Nameless(Own):
        name = ""

    class Range(Own):
        name = "range"

    own = Own(all_to_last)
    for assignors, reason in (
        ([], "at least one"),
        (["sticky", "mine"], "'mine' is neither an Assignor nor one of uniform"),
        ([Own], "is neither an Assignor nor one of .*; make an object of it"),
        ([own, Own(all_to_last)], "two have the name 'own'"),
        (["uniform", "uniform"], "two have the name 'uniform'"),
        ("uniform", "no list of names"),
        (own, "no list of names"),
        ([Sharing(all_to_last)], "shares partitions"),
        ([Nameless(all_to_last)], "has no `name`"),
        ([Range(all_to_last)], "the name of a built-in one"),
    ):
        with pytest.raises(ArgumentError, match=r"assignors: .*" + reason):
            Coordinator(tmp_path / "data", assignors=assignors)  # type: ignore[arg-type]


def test_a_class_in_the_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "shop_assignors.py").write_text(_MODULE)
    named = Config(
        group_consumer_assignors="shop_assignors:First,uniform",
        group_consumer_assignment_interval_ms=0,
    )
    with Coordinator(tmp_path / "data", topics={"orders": 4}, config=named) as coordinator:
        beat(coordinator, "a", 0)
        beat(coordinator, "b", 0)
        eventually(lambda: targets(coordinator) == {"a": [0, 1, 2, 3], "b": []})
        assert coordinator.groups()["assignor"].to_pylist() == ["first"]
    for word, reason in (
        ("shop_assignors:Second", "AttributeError: .*Second"),
        ("no_such_module:First", "ModuleNotFoundError: .*no_such_module"),
        ("shop_assignors:first", "is no pykcoord.Assignor"),
        ("shop_assignors:Twice", "the name of a built-in one"),
        ("shop_assignors:First,shop_assignors:Again", "two have the name 'first'"),
    ):
        config = Config(group_consumer_assignors=word)
        coordinator = Coordinator(tmp_path / "other", config=config)
        with pytest.raises(ConfigError, match=rf"group.consumer.assignors: .*{reason}"):
            coordinator.start()
    for word in ("mine", "a b:C", ":C", "m:", "m:C:D"):
        with pytest.raises(ConfigError, match="and no module:Class"):
            Config(group_consumer_assignors=word)
    with pytest.raises(ConfigError, match="nobody calls it"):
        Shard(named)


_MODULE = """
import pykcoord

first = 1


class First(pykcoord.Assignor):
    name = "first"

    def assign(self, topics, members):
        every = [(topic, number) for topic, count in topics.items() for number in range(count)]
        return {min(members): every}


class Again(First):
    pass


class Twice(First):
    name = "sticky"
"""
