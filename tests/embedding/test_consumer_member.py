"""Members of consumer groups in process: what they own, what their listeners hear, and that no
partition has two owners."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.waiting import SECONDS, eventually

from pykcoord import Config, Coordinator, Member, TopicPartition
from pykcoord.errors import ArgumentError, KafkaError

ALL = frozenset(TopicPartition("orders", number) for number in range(6))
CONFIG = Config(
    group_consumer_min_heartbeat_interval_ms=1,
    group_consumer_heartbeat_interval_ms=20,
    group_consumer_assignment_interval_ms=0,
    offsets_topic_num_partitions=4,
)
# Of tests whose members are silent for longer.
SHORT = dataclasses.replace(
    CONFIG, group_consumer_min_session_timeout_ms=100, group_consumer_session_timeout_ms=1_000
)
Join = Callable[..., Member]


@pytest.fixture
def config() -> Config:
    return CONFIG


@pytest.fixture
def join(coordinator: Coordinator) -> Iterator[Join]:
    members: list[Member] = []

    def join(group_id: str = "billing", **options: Any) -> Member:
        member = coordinator.join(group_id, ["orders"], protocol="consumer", **options)
        members.append(member)
        return member

    yield join
    for member in members:
        member.close()


class Owners:
    """Who owns each partition, as the listeners say; two at a time are a fault."""

    def __init__(self) -> None:
        self.of: dict[TopicPartition, str] = {}
        self.faults: list[str] = []
        self.told: list[tuple[str, str, frozenset[TopicPartition]]] = []
        self._lock = threading.Lock()

    def listeners(self, name: str) -> dict[str, Any]:
        def assigned(partitions: frozenset[TopicPartition]) -> None:
            with self._lock:
                self.told.append((name, "+", partitions))
                for one in partitions:
                    if (other := self.of.setdefault(one, name)) != name:
                        self.faults.append(f"{one} is {other}'s and {name}'s")

        def revoked(partitions: frozenset[TopicPartition]) -> None:
            with self._lock:
                self.told.append((name, "-", partitions))
                for one in partitions:
                    if self.of.pop(one, None) != name:
                        self.faults.append(f"{one} was not {name}'s")

        return {"on_assigned": assigned, "on_revoked": revoked}

    def slow_listeners(self, name: str, may_end: threading.Event) -> dict[str, Any]:
        """Those of a member that gives nothing up before it may."""
        listeners = self.listeners(name)
        revoked = listeners["on_revoked"]

        def slow(partitions: frozenset[TopicPartition]) -> None:
            may_end.wait(SECONDS)
            revoked(partitions)

        return listeners | {"on_revoked": slow}


def test_one_member_owns_everything(coordinator: Coordinator, join: Join) -> None:
    with join() as member:
        eventually(lambda: member.assignment == ALL)
        assert member.generation >= 1
        member.commit({("orders", 0): 42})
        assert member.committed() == {("orders", 0): 42}
        groups = coordinator.groups().to_pylist()
        assert [(group["group_id"], group["type"]) for group in groups] == [("billing", "consumer")]
    assert (member.assignment, member.generation) == (frozenset(), -1)
    assert coordinator.groups()["state"].to_pylist() == ["Empty"]


def test_listeners_hear_what_changes_and_no_partition_has_two_owners(join: Join) -> None:
    owners = Owners()
    first = join(**owners.listeners("first"))
    eventually(lambda: first.assignment == ALL)
    others = [join(**owners.listeners(name)) for name in ("second", "third")]
    members = [first, *others]
    eventually(lambda: all(len(member.assignment) == 2 for member in members))
    assert frozenset().union(*(member.assignment for member in members)) == ALL
    others[0].close()
    eventually(lambda: len(first.assignment) + len(others[1].assignment) == 6)
    assert owners.faults == []
    assert owners.told[0] == ("first", "+", ALL)
    kept = first.assignment
    of_first = [(sign, of) for name, sign, of in owners.told[1:] if name == "first"]
    assert all(of and of != ALL for _, of in of_first), "what changes only"
    assert not any(of & kept for sign, of in of_first if sign == "-" and kept <= ALL - of)
    others[1].close()
    eventually(lambda: first.assignment == ALL)
    first.close()
    assert (owners.of, owners.faults) == ({}, [])


@pytest.mark.parametrize("config", [SHORT], ids=["short sessions"])
def test_a_slow_revocation_is_waited_for(join: Join) -> None:
    owners, may_end = Owners(), threading.Event()
    listeners = owners.slow_listeners("first", may_end)
    first = join(**listeners)
    eventually(lambda: first.assignment == ALL)
    second = join(**owners.listeners("second"))
    second.wait()
    epoch = first.generation
    time.sleep(1.2)  # more than a session: the first is alive all the same
    assert second.assignment == frozenset()
    may_end.set()
    eventually(lambda: len(first.assignment) == len(second.assignment) == 3)
    assert first.generation > epoch
    assert owners.faults == []


@pytest.mark.parametrize("config", [SHORT], ids=["short sessions"])
def test_a_member_that_falls_silent_loses_all_and_comes_back(
    join: Join, monkeypatch: pytest.MonkeyPatch
) -> None:
    owners = Owners()
    silent = join(**owners.listeners("silent"))
    eventually(lambda: silent.assignment == ALL)
    beat, is_heard = silent._beat, threading.Event()

    async def dumb() -> int:
        return await beat() if is_heard.is_set() else 0

    monkeypatch.setattr(silent, "_beat", dumb)
    lively = join()
    eventually(lambda: lively.assignment == ALL)
    with pytest.raises(KafkaError, match="UNKNOWN_MEMBER_ID"):
        silent.commit({("orders", 0): 1})
    is_heard.set()
    eventually(lambda: len(silent.assignment) == len(lively.assignment) == 3)
    assert ("silent", "-", ALL) in owners.told


def test_a_revocation_that_takes_too_long_loses_all(join: Join) -> None:
    owners, may_end = Owners(), threading.Event()
    listeners = owners.slow_listeners("slow", may_end)
    slow_member = join(rebalance_timeout_ms=300, **listeners)
    eventually(lambda: slow_member.assignment == ALL)
    second = join()
    eventually(lambda: second.assignment == ALL)  # the first was expelled
    may_end.set()
    eventually(lambda: len(slow_member.assignment) == len(second.assignment) == 3)
    lost = [of for _, sign, of in owners.told if sign == "-"]
    assert frozenset().union(*lost) == ALL, "all that it had is told as lost"
    assert owners.faults == []


def test_a_static_member_comes_back_to_its_partitions(join: Join) -> None:
    first, second = join(group_instance_id="a"), join(group_instance_id="b")
    eventually(lambda: len(first.assignment) == len(second.assignment) == 3)
    had, epoch = first.assignment, second.generation
    first.close()
    again = join(group_instance_id="a")
    eventually(lambda: again.assignment == had)
    assert second.generation == epoch


def test_a_listener_that_refuses_its_partitions_leaves_them_to_others(join: Join) -> None:
    def refuses(partitions: frozenset[TopicPartition]) -> None:
        raise ValueError("not these")

    refusing = join(on_assigned=refuses)
    with pytest.raises(ValueError, match="not these"):
        refusing.wait()
    other = join()
    eventually(lambda: other.assignment == ALL)


def test_members_of_both_protocols_share_a_group(coordinator: Coordinator, join: Join) -> None:
    member = join()
    eventually(lambda: member.assignment == ALL)
    with coordinator.join("billing", ["orders"], heartbeat_interval_ms=20) as classic:
        eventually(lambda: len(member.assignment) == len(classic.assignment) == 3)
    eventually(lambda: member.assignment == ALL)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"protocol": "eager"}, "neither 'classic' nor 'consumer'"),
        ({"protocol": "consumer", "session_timeout_ms": 10_000}, "group.consumer.session.timeout"),
        ({"protocol": "consumer", "heartbeat_interval_ms": 50}, "group.consumer.heartbeat"),
    ],
)
def test_arguments_that_cannot_be_right(
    coordinator: Coordinator, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(ArgumentError, match=said):
        coordinator.join("billing", ["orders"], **options)


def test_a_coordinator_without_consumer_groups_says_so(tmp_path: Path) -> None:
    config = Config(group_coordinator_rebalance_protocols="classic")
    with (
        Coordinator(tmp_path / "data", topics={"orders": 6}, config=config) as coordinator,
        pytest.raises(ArgumentError, match="no consumer groups here"),
    ):
        coordinator.join("billing", ["orders"], protocol="consumer")
