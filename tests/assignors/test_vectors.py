"""Every recorded case, through the public function: with `compat="java"` the Java class's lists,
in their order; without it the same wherever those keep the laws, and lawful ones elsewhere."""

from __future__ import annotations

import pytest
from support.assignor_cases import Case, broken_laws

import pykcoord
from pykcoord.errors import JavaAssignorError

Lists = dict[str, list[tuple[str, int]]]


def test_java_gives_the_same_lists(all_cases: list[Case]) -> None:
    wrong = []
    for case in all_cases:
        try:
            found: object = pykcoord.assign(case.strategy, case.topics, case.members, compat="java")
        except JavaAssignorError:
            found = None
        expected = None if isinstance(case.expected, str) else case.expected
        if found != expected:
            wrong.append(f"{case.name}: {found} instead of {case.expected}")
    assert not wrong, "\n".join(wrong)


def test_the_default_is_lawful_and_deviates_only_where_java_is_not(
    all_cases: list[Case],
) -> None:
    deviations = 0
    for case in all_cases:
        found: Lists = {
            member: list(partitions)
            for member, partitions in pykcoord.assign(
                case.strategy, case.topics, case.members
            ).items()
        }
        assert list(broken_laws(case, found)) == [], case.name
        if found == case.expected:
            continue
        deviations += 1
        assert isinstance(case.expected, str) or any(broken_laws(case, case.expected)), case.name
    assert deviations > 0


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "server-range", "uniform"])
def test_the_other_strategies_have_no_defects(strategy: str) -> None:
    topics = {"a": 3, "b": 2}
    members = {"m1": ["a", "b"], "m2": ["a"], "m3": []}
    correct = pykcoord.assign(strategy, topics, members)
    assert correct == pykcoord.assign(strategy, topics, members, compat="java")
    assert correct["m3"] == []
