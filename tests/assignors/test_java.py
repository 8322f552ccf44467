"""Random groups beside Kafka's own classes: with `compat="java"` the same lists in the same order,
or a failure of the same kind; without it the same wherever Java's keep the laws. The server's
classes return sets, so lists are compared in the order of (topic, number). They go through members
and topics in the order of their input maps: here in the order of ids and names, as pykcoord does.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator

import pytest
from support.assignor_cases import Case, broken_laws
from support.kafka import jars
from support.kafka.assignors import JavaAssignors, Lists

import pykcoord
from pykcoord import Subscription
from pykcoord.assignors import STRATEGIES, sticky_user_data
from pykcoord.errors import JavaAssignorError

NAMES = ["a", "b", "orders", "t-1", "t-10", "t-2", "жур", "𝄞", "ﬀ"]
RACKS = ["r0", "r1", "r2"]


@pytest.fixture(scope="module")
def java() -> Iterator[JavaAssignors]:
    if (reason := jars.missing_tool_chain()) is not None:
        pytest.skip(reason)
    with JavaAssignors() as assignors:
        yield assignors


@pytest.mark.java
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_random_groups(strategy: str, java: JavaAssignors, pytestconfig: pytest.Config) -> None:
    failures = 0
    for seed in range(pytestconfig.getoption("--java-cases")):
        topics, members = _group(strategy, random.Random(f"{strategy} {seed}"))
        expected = java.assign(strategy, topics, members)
        case = Case(f"{strategy} {seed}", strategy, topics, members, expected)
        _check(case)
        failures += isinstance(expected, str)
    assert failures == 0 or strategy in ("sticky", "cooperative-sticky")


def _check(case: Case) -> None:
    try:
        lists = pykcoord.assign(case.strategy, case.topics, case.members, compat="java")
        found: object = {member: list(partitions) for member, partitions in lists.items()}
    except JavaAssignorError as error:
        found = next(name for name in ("NullPointer", "IllegalState") if name in str(error))
        found = f"{found}Exception"
    expected = case.expected
    if not isinstance(expected, str):
        # The server's classes leave out members without partitions.
        expected = {member: expected.get(member, []) for member in case.members}
    assert found == expected, case
    default: Lists = {
        member: list(partitions)
        for member, partitions in pykcoord.assign(case.strategy, case.topics, case.members).items()
    }
    assert list(broken_laws(case, default)) == [], case
    if default != expected:
        assert isinstance(expected, str) or any(broken_laws(case, expected)), case


def _group(
    strategy: str, chance: random.Random
) -> tuple[dict[str, list[list[str]]], dict[str, Subscription]]:
    names = chance.sample(NAMES, chance.randrange(1, len(NAMES)))
    racks = RACKS if chance.random() < 0.3 else []
    topics = {
        name: [
            chance.sample(racks, min(len(racks), chance.randrange(3)))
            for _ in range(chance.choice([0, 1, 3, chance.randrange(12)]))
        ]
        for name in names
    }
    same = chance.random() < 0.4
    listed = chance.sample(NAMES, chance.randrange(len(NAMES)))
    ids = [f"{chance.choice('mM-ж')}{number}" for number in range(chance.randrange(1, 14))]
    free = [(topic, number) for topic, held in topics.items() for number in range(len(held))]
    chance.shuffle(free)
    members = {}
    for member in chance.sample(ids, len(ids)):
        wanted = listed if same else chance.sample(NAMES, chance.randrange(len(NAMES)))
        static = chance.random() < 0.2
        # Of two members with one instance id the first in Java's hash order goes first.
        instance = chance.choice(["i0", "i1", f"i-{member}"]) if static else None
        rack = chance.choice([*racks, None, ""]) if racks else None
        if strategy in ("uniform", "server-range"):
            held, free = _cut(free, chance)
            members[member] = Subscription(wanted, held, None, rack, None, instance)
        else:
            members[member] = _consumer(wanted, topics, rack, instance, chance)
    return topics, members


def _cut(
    free: list[tuple[str, int]], chance: random.Random
) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """A target assignment holds what exists, once."""
    taken = chance.randrange(len(free) // 2 + 1)
    return free[:taken], free[taken:]


def _consumer(
    wanted: list[str],
    topics: dict[str, list[list[str]]],
    rack: str | None,
    instance: str | None,
    chance: random.Random,
) -> Subscription:
    """Claims of any age, on what exists and, rarely, on what does not."""
    beyond = 3 if chance.random() < 0.1 else 0
    known = [(topic, n) for topic, held in topics.items() for n in range(len(held) + beyond)]
    claims = chance.sample(known, min(len(known), chance.randrange(8)))
    generation = chance.choice([None, 3, 4, 4, 4])
    prior = chance.choice([None, 3, 4, 4])
    user_data = chance.choice(
        [
            None,
            sticky_user_data(chance.sample(claims, len(claims)), prior),
            sticky_user_data(claims, 4),
            struct.pack(">i", chance.choice([-1, 3, 4])),
            chance.randbytes(chance.randrange(9)),
        ]
    )
    return Subscription(wanted, claims, generation, rack, user_data, instance)
