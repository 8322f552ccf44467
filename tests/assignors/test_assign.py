"""`pykcoord.assign`: what goes in, what is refused, one's own assignors, and the bytes around."""

from __future__ import annotations

import random
import re
import struct
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

import pykcoord
from pykcoord import Subscription, TopicPartition, assignors
from pykcoord.errors import ArgumentError, JavaAssignorError


def test_partitions_are_named_tuples() -> None:
    (found,) = pykcoord.assign("range", {"t": 1}, {"m": ["t"]})["m"]
    assert type(found) is TopicPartition
    assert (found.topic, found.partition) == ("t", 0)
    assert hash(found) == hash(("t", 0))


@pytest.mark.parametrize("strategy", assignors.STRATEGIES)
def test_topics_that_do_not_exist_and_members_without_topics(strategy: str) -> None:
    assert pykcoord.assign(strategy, {}, {}) == {}
    members = {"a": ["ghost", "empty"], "b": [], "c": ("t", "t")}
    expected = {"a": [], "b": [], "c": [("t", 0), ("t", 1)]}
    assert pykcoord.assign(strategy, {"t": 2, "empty": 0, "other": 9}, members) == expected


@pytest.mark.parametrize("strategy", assignors.STRATEGIES)
def test_many_partitions_for_one_member(strategy: str) -> None:
    assigned = pykcoord.assign(strategy, {"t": 100_000}, {"m": ["t"]})
    assert assigned == {"m": [("t", number) for number in range(100_000)]}


@pytest.mark.parametrize("strategy", ["cooperative-sticky", "uniform"])
def test_owned_partitions_stay(strategy: str) -> None:
    members = {
        "a": Subscription(["t"], [TopicPartition("t", 3)], generation_id=4),
        "b": Subscription(["t"], [("t", 0), ("t", 1), ("gone", 7)], generation_id=4),
    }
    assigned = pykcoord.assign(strategy, {"t": 4}, members)
    assert sorted(assigned["a"]) == [("t", 2), ("t", 3)]
    assert sorted(assigned["b"]) == [("t", 0), ("t", 1)]


def test_sticky_believes_user_data_alone() -> None:
    prior = assignors.sticky_user_data([("t", 3)], 4)
    a = Subscription(["t"], [("t", 0)], generation_id=4, user_data=prior)
    assert pykcoord.assign("sticky", {"t": 4}, {"a": a, "b": ["t"]})["a"] == [("t", 3), ("t", 0)]
    for garbage in (b"", b"\x00", b"\x7f\xff\xff\xff" * 3, bytes(100)):
        a = Subscription(["t"], user_data=garbage)
        assert len(pykcoord.assign("sticky", {"t": 4}, {"a": a, "b": ["t"]})["a"]) == 2


def test_user_data_of_another_assignor_claims_nothing() -> None:
    of_sticky = assignors.sticky_user_data([("t", 0), ("t", 1), ("t", 2)], 4)
    of_cooperative = struct.pack(">i", 4)
    for strategy, user_data in (("cooperative-sticky", of_sticky), ("sticky", of_cooperative)):
        a = Subscription(["t"], user_data=user_data)
        assigned = pykcoord.assign(strategy, {"t": 4}, {"a": a, "b": ["t"]})
        assert sorted(assigned["a"] + assigned["b"]) == [("t", number) for number in range(4)]
        assert assigned == pykcoord.assign(strategy, {"t": 4}, {"a": ["t"], "b": ["t"]})


def test_java_fails_where_asked_for() -> None:
    """The last example of assignors section 10: an old claim of a member that left the topic."""

    def member(topic: list[str], prior: list[tuple[str, int]], generation: int) -> Subscription:
        return Subscription(topic, user_data=assignors.sticky_user_data(prior, generation))

    topics = {"t0": 1, "t1": 1, "t2": 3}
    members = {
        "A": member(["t1"], [("t2", 0), ("t1", 0)], 1),
        "B": member(["t2"], [("t2", 0), ("t2", 1), ("t2", 2)], 2),
        "C": member(["t2", "t0"], [("t0", 0)], 2),
    }
    with pytest.raises(JavaAssignorError, match="NullPointerException"):
        pykcoord.assign("sticky", topics, members, compat="java")
    sizes = {m: len(held) for m, held in pykcoord.assign("sticky", topics, members).items()}
    assert sizes == {"A": 1, "B": 2, "C": 2}


_TOPICS = {"t": 1}
_MEMBERS = {"m": ["t"]}
_REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("strategy", {"strategy": "rnage"}),
    ("strategy", {"strategy": None}),
    ("compat", {"compat": "scala"}),
    ("topics", {"topics": ["t"]}),
    ("topics", {"topics": {"t": -1}}),
    ("topics", {"topics": {"t": 2**31}}),
    ("topics", {"topics": {"t": "three"}}),
    ("topics", {"topics": {3: 1}}),
    ("topics", {"topics": {"t": 2**30}}),
    ("members", {"members": [["t"]]}),
    ("members", {"members": {"m": "t"}}),
    ("members", {"members": {"m": None}}),
    ("members", {"members": {"m": [1]}}),
    ("members", {"members": {1: ["t"]}}),
    ("members", {"members": {"m": Subscription("t")}}),
    ("members", {"members": {"m": Subscription(["t"], [("t", "0")])}}),  # type: ignore[list-item]
    ("members", {"members": {"m": Subscription(["t"], ["t0"])}}),  # type: ignore[list-item]
    ("members", {"members": {"m": Subscription(["t"], generation_id=2**31)}}),
]


@pytest.mark.parametrize(("argument", "changed"), _REFUSED, ids=lambda value: str(value)[:60])
def test_what_cannot_be_right_is_refused_by_name(argument: str, changed: dict[str, Any]) -> None:
    given = {"strategy": "uniform", "topics": _TOPICS, "members": _MEMBERS, **changed}
    with pytest.raises(ArgumentError) as raised:
        pykcoord.assign(**given)
    assert raised.value.argument == argument


class RandomAssignor(pykcoord.Assignor):
    """Each partition to a random subscriber."""

    name = "random"

    def assign(
        self, topics: Mapping[str, int], members: Mapping[str, Subscription]
    ) -> Mapping[str, Iterable[tuple[str, int]]]:
        assignment: dict[str, list[tuple[str, int]]] = {member: [] for member in members}
        for topic, partitions in topics.items():
            subscribers = [m for m, subscription in members.items() if topic in subscription.topics]
            for partition in range(partitions):
                assignment[random.choice(subscribers)].append((topic, partition))
        return assignment


def test_ones_own_assignor() -> None:
    members = {"a": ["t", "u"], "b": Subscription(["t"]), "c": ["ghost"]}
    assigned = pykcoord.assign(RandomAssignor(), {"t": 50, "u": [["r1"]] * 2, "v": 3}, members)
    assert assigned["c"] == []
    assert {("u", 0), ("u", 1)} <= set(assigned["a"])
    given = assigned["a"] + assigned["b"]
    assert sorted(given) == [("t", n) for n in range(50)] + [("u", 0), ("u", 1)]
    assert assigned["b"], "one in 2^50"


class _Fixed(pykcoord.Assignor):
    name = "fixed"

    def __init__(self, assignment: Mapping[str, Iterable[tuple[str, int]]]) -> None:
        self.assignment = assignment

    def assign(
        self, topics: Mapping[str, int], members: Mapping[str, Subscription]
    ) -> Mapping[str, Iterable[tuple[str, int]]]:
        return self.assignment


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"x": []}, "gives to 'x', which is no member"),
        ({"m": [("t", 1)]}, "gives t-1, which does not exist or has no subscriber"),
        ({"m": [("u", 0)]}, "gives u-0, which does not exist or has no subscriber"),
    ],
)
def test_ones_own_assignor_is_held_to_what_exists(
    wrong: dict[str, list[tuple[str, int]]], said: str
) -> None:
    assert pykcoord.assign(_Fixed({}), _TOPICS, _MEMBERS) == {"m": []}
    with pytest.raises(ArgumentError, match=f"fixed {said}"):
        pykcoord.assign(_Fixed(wrong), _TOPICS, _MEMBERS)


def test_ones_own_assignor_gives_a_partition_once() -> None:
    """To one member, or to several if the assignor says so; never twice to one."""
    members = {"a": ["t"], "b": ["t"]}
    both, twice = {"a": [("t", 0)], "b": [("t", 0)]}, {"a": [("t", 0), ("t", 0)]}
    with pytest.raises(ArgumentError, match="fixed gives t-0 to 'a' and to 'b'"):
        pykcoord.assign(_Fixed(both), {"t": 1}, members)
    sharing = _Fixed(both)
    sharing.shares_partitions = True
    assert pykcoord.assign(sharing, {"t": 1}, members) == both
    sharing.assignment = twice
    for assignor in (_Fixed(twice), sharing):
        with pytest.raises(ArgumentError, match="fixed gives 'a' a partition twice"):
            pykcoord.assign(assignor, {"t": 1}, members)


def test_ones_own_assignor_gives_to_subscribers_alone() -> None:
    members = {"a": ["t"], "b": ["t", "u"]}
    said = "fixed gives u-0 to 'a', which does not subscribe to it"
    with pytest.raises(ArgumentError, match=said):
        pykcoord.assign(_Fixed({"a": [("u", 0)]}), {"t": 1, "u": 1}, members)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (None, "fixed gives a NoneType, not a mapping of member ids to partitions"),
        ({"m": {"t": [0]}}, "fixed gives 'm' {'t': [0]}, not a list of (topic, partition)"),
        ({"m": None}, "fixed gives 'm' None, not a list of (topic, partition)"),
        ({"m": [("t", "0")]}, "fixed gives 'm' [('t', '0')], not a list of (topic, partition)"),
    ],
)
def test_ones_own_assignor_that_gives_something_else_is_named(wrong: Any, said: str) -> None:
    with pytest.raises(ArgumentError, match=re.escape(said)):
        pykcoord.assign(_Fixed(wrong), _TOPICS, _MEMBERS)


@pytest.mark.parametrize("version", range(4))
def test_subscriptions_travel_as_java_writes_them(version: int) -> None:
    subscription = Subscription(["b", "a"], [("b", 1), ("a", 2), ("b", 0)], 5, "rk", b"\x09")
    data = assignors.encode_subscription(subscription, version)
    # What each version adds to the one before it.
    golden = [
        "00000002 000161 000162 00000001 09",
        "00000002 000161 00000001 00000002 000162 00000002 00000000 00000001",
        "00000005",
        "0002 726b",
    ]
    body = bytes.fromhex("".join(golden[: version + 1]))
    assert data == struct.pack(">h", version) + body
    decoded = assignors.decode_subscription(data, "instance")
    assert decoded.topics == ["a", "b"]
    assert decoded.generation_id == (5 if version >= 2 else None)
    assert decoded.owned_partitions == ([("a", 2), ("b", 0), ("b", 1)] if version else [])
    assert decoded.rack_id == ("rk" if version == 3 else None)
    assert (decoded.user_data, decoded.group_instance_id) == (b"\x09", "instance")


def test_assignments_keep_their_order() -> None:
    partitions = [("b", 1), ("a", 2), ("b", 0)]
    data = assignors.encode_assignment(partitions)
    decoded = pykcoord._native.decode_assignment(data)
    assert decoded == (3, [("b", [1, 0]), ("a", [2])], None)


def test_what_is_no_subscription_is_refused() -> None:
    for data in (b"", b"\xff\xff", b"\x00\x00\x7f\xff\xff\xff"):
        with pytest.raises(ArgumentError, match="metadata"):
            assignors.decode_subscription(data)
    with pytest.raises(ArgumentError, match="version"):
        assignors.encode_subscription(Subscription(), 4)
