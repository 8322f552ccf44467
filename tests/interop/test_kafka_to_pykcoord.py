"""Every log that Kafka wrote, served: the same groups and offsets over TCP as Kafka's own replay
found, then written on, and read again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kio.schema.errors import ErrorCode
from support import segments
from support.asked import Asked, Offsets, Unstable
from support.consumer_groups import (
    described_consumer_groups,
    expected_consumer_groups,
    name_topics,
)

from .conftest import Serve

_NEW, _JOINED = "written-by-pykcoord", "joined-pykcoord"
_ORDERS = {"orders": {"0": {"offset": 42, "leaderEpoch": 3, "metadata": "from here on"}}}


def test_a_log_of_kafka_is_served_and_written_on(scenario: Path, serve: Serve) -> None:
    expected = segments.expected(scenario)
    name_topics(scenario, expected)
    server = serve(
        scenario, expected["offsets_topic_num_partitions"], "--on-corruption", "truncate",
        "--topic", "orders:4",
    )  # fmt: skip
    with Asked(server.address) as asked:
        _check(asked, expected)
        _write_on(asked)
        classic = _simple_group(expected)
        if classic is not None:
            assert asked.commit(classic, [("orders", 1, 5)]) == {ErrorCode.none}
    server.restart()
    written = _with_ours(expected, classic)
    with Asked(server.address) as asked:
        _check(asked, written)
        assert asked.described([_JOINED])[_JOINED]["state"] == "Stable"
        joined = asked.join_alone("joined-after-the-restart")
        assert joined.error_code is ErrorCode.none


def _write_on(asked: Asked) -> None:
    errors = asked.commit(_NEW, [("orders", 0, 42)], leader_epoch=3, metadata="from here on")
    assert errors == {ErrorCode.none}
    joined = asked.join_alone(_JOINED)
    errors = asked.commit(
        _JOINED, [("orders", 0, 42)], leader_epoch=3, metadata="from here on",
        generation_id=joined.generation_id, member_id=joined.member_id,
    )  # fmt: skip
    assert errors == {ErrorCode.none}


def _with_ours(expected: dict[str, Any], classic: str | None) -> dict[str, Any]:
    offsets: Offsets = {**expected["offsets"], _NEW: _ORDERS, _JOINED: _ORDERS}
    if classic is not None:
        fifth = {"orders": {"1": {"offset": 5, "leaderEpoch": -1, "metadata": ""}}}
        offsets[classic] = {**offsets.get(classic, {}), **fifth}
    simple = {"type": "classic", "state": "Empty", "protocolType": ""}
    joined = {"type": "classic", "state": "Stable", "protocolType": "consumer"}
    groups = {**expected["groups"], _NEW: simple, _JOINED: joined}
    return {**expected, "groups": groups, "offsets": offsets}


def _simple_group(expected: dict[str, Any]) -> str | None:
    """A group of Kafka's that takes a commit without a member, if there is one."""
    empty = (
        name
        for name, group in sorted(expected["groups"].items())
        if group["type"] == "classic" and group["state"] == "Empty"
    )
    return next(empty, None)


def _check(asked: Asked, expected: dict[str, Any]) -> None:
    groups = expected["groups"]
    listed = asked.listed()
    assert {name: kind for name, (kind, _, _) in listed.items()} == {
        name: group["type"] for name, group in groups.items()
    }
    classic = {name: group for name, group in groups.items() if group["type"] == "classic"}
    described = asked.described(classic)
    for name, group in classic.items():
        assert listed[name][1] == group["state"] == described[name]["state"]
        protocol_type = group.get("protocolType", listed[name][2])
        assert listed[name][2] == protocol_type == described[name]["protocolType"]
        if "members" in group:
            assert described[name]["members"] == _members(group)
        if group["state"] == "Stable" and "protocol" in group:
            assert described[name]["protocol"] == group["protocol"]
    consumers = expected_consumer_groups(expected)
    assert described_consumer_groups(asked, consumers) == consumers
    offsets: Offsets = expected["offsets"]
    assert asked.offsets(groups) == offsets
    unstable: Unstable = expected["unstable"]
    wanted = _all_partitions(offsets, unstable)
    assert asked.unstable(wanted) == unstable


def _members(group: dict[str, Any]) -> list[dict[str, Any]]:
    """The answer of DescribeGroups for them."""
    told = (
        "memberId", "groupInstanceId", "clientId", "clientHost", "memberMetadata",
        "memberAssignment",
    )  # fmt: skip
    members = [{name: member[name] for name in told} for member in group["members"]]
    return sorted(members, key=lambda member: str(member["memberId"]))


def _all_partitions(offsets: Offsets, unstable: Unstable) -> Unstable:
    """The partitions of both: a stable one must not be refused."""
    wanted: Unstable = {}
    for group, topics in (*offsets.items(), *unstable.items()):
        for topic, partitions in topics.items():
            of_topic = wanted.setdefault(group, {}).setdefault(topic, [])
            of_topic += [int(one) for one in partitions if int(one) not in of_topic]
    return wanted
