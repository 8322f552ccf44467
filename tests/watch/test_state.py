"""The watched state beside Kafka's own reading of recorded logs, all kinds of groups."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support import segments

from pykcoord.lag import matching
from pykcoord.log import LogReader, decoded_id
from pykcoord.watch import WatchedGroup, WatchedState

_SCENARIOS = (
    "classic-1", "classic-2", "consumer-1", "consumer-2", "migration-1", "offsets-1", "share-1",
    "streams-1", "transactions-1", "transactions-2",
)  # fmt: skip


@pytest.mark.parametrize("scenario", _SCENARIOS)
def test_recorded_logs_come_to_what_kafka_read_from_them(scenario: str, tmp_path: Path) -> None:
    directory = segments.unpack(segments.OWN / scenario, tmp_path / scenario)
    expected = segments.expected(directory)
    state = WatchedState()
    state.set_names(
        {decoded_id(topic["id"]): name for name, topic in expected.get("topics", {}).items()}
    )
    reader = LogReader.open(directory)
    for number in reader.partitions:
        state.begin(number)
        state.apply(number, reader.read(number), reader.next_offset(number), False)
    found = {group.group_id: group for group in state.groups()}
    assert found.keys() == expected["groups"].keys()
    for group_id, told in expected["groups"].items():
        assert _comparable(found[group_id]) == _of(told), group_id
    offsets: dict[str, Any] = {}
    for of in state.offsets():
        by_topic = offsets.setdefault(of.group_id, {}).setdefault(of.topic, {})
        by_topic[str(of.partition)] = of.offset
    assert offsets == {
        group_id: {
            topic: {partition: of["offset"] for partition, of in partitions.items()}
            for topic, partitions in topics.items()
        }
        for group_id, topics in expected["offsets"].items()
    }


def _comparable(group: WatchedGroup) -> tuple[Any, ...]:
    members = {
        one.member_id: (
            one.instance_id, one.client_id, one.client_host, one.epoch,
            sorted((topic, list(of)) for topic, of in one.owned.items() if of)
            if group.type in ("consumer", "share") else None,
        )
        for one in group.members
    }  # fmt: skip
    epoch = group.epoch if group.type != "classic" else None
    return group.type, group.state, epoch, members


def _of(told: dict[str, Any]) -> tuple[Any, ...]:
    kind = told["type"]
    members = {}
    for one in told["members"]:
        owned = None
        if kind in ("consumer", "share"):
            owned = sorted(
                (of["topicName"], sorted(of["partitions"]))
                for of in one["assignment"]["topicPartitions"]
            )
        members[one["memberId"]] = (
            one.get("instanceId", one.get("groupInstanceId")), one["clientId"], one["clientHost"],
            one.get("memberEpoch"), owned,
        )  # fmt: skip
    return kind, told["state"], told.get("groupEpoch"), members


def test_streams_tasks_are_told_as_partitions_of_their_topics(tmp_path: Path) -> None:
    directory = segments.unpack(segments.OWN / "streams-1", tmp_path / "streams-1")
    state = WatchedState()
    reader = LogReader.open(directory)
    for number in reader.partitions:
        state.begin(number)
        state.apply(number, reader.read(number), reader.next_offset(number), False)
    (group,) = (one for one in state.groups() if one.members)
    owned = {one.client_id: one.owned for one in group.members}
    topic = f"{group.group_id}-KSTREAM-AGGREGATE-STATE-STORE-0000000002-repartition"
    assert owned == {
        "one-StreamThread-1-consumer": {topic: [0, 1], "words-37": [0, 1, 4]},
        "two-StreamThread-1-consumer": {topic: [2, 3, 4], "words-37": [2, 3]},
    }


def test_a_partition_that_begins_anew_is_told_of() -> None:
    state = WatchedState()
    told: list[tuple[int, bool]] = []
    state.observe(lambda change: told.append((change.partition, change.chunk is None)))
    state.begin(3)
    version = state.version
    state.begin(3)
    assert told == [(3, True)]
    assert state.version != version


def test_patterns_of_groups_know_two_wildcards() -> None:
    wanted = matching(["billing-*", "[a]?"])
    assert [one for one in ("billing-eu", "billing", "[a]b", "ab", "[a]") if wanted(one)] == [
        "billing-eu", "[a]b"
    ]  # fmt: skip
