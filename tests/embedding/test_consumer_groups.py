"""Consumer groups (KIP-848) inside a process: what the tables say of them."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from kio.schema.consumer_group_heartbeat.v1.request import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i32, i32Timedelta

from pykcoord import Config, Coordinator
from pykcoord.topic_ids import id_text


def beat(coordinator: Coordinator, member_id: str, epoch: int, **more: Any) -> Any:
    """The answer to one heartbeat: a whole one, without partitions unless some are given."""
    fields: dict[str, Any] = {
        "rebalance_timeout": i32Timedelta.parse(timedelta(seconds=60)),
        "subscribed_topic_names": (TopicName("orders"),),
        "topic_partitions": (),
    }
    request = ConsumerGroupHeartbeatRequest(
        group_id=GroupId("billing"), member_id=member_id, member_epoch=i32(epoch), **fields | more
    )
    answer = coordinator.handle(request).result(60)
    assert answer.error_code.value == 0, answer.error_message
    return answer


def test_tables_of_a_group_in_the_middle_of_a_revocation(tmp_path: Path) -> None:
    config = Config(group_consumer_assignment_interval_ms=0)
    with Coordinator(tmp_path / "data", topics={"orders": 4}, config=config) as coordinator:
        first = beat(coordinator, "a", 0, rack_id="r1")
        assert first.member_epoch == 2
        beat(coordinator, "b", 0, instance_id="i", server_assignor="range")
        topic_id = first.assignment.topic_partitions[0].topic_id
        every = TopicPartitions(topic_id=topic_id, partitions=tuple(map(i32, range(4))))
        beat(coordinator, "a", 2, topic_partitions=(every,))
        groups, members = coordinator.groups(), coordinator.members()

    (group,) = groups.to_pylist()
    assert group.pop("assignment_timestamp") > 0
    assert group == {
        "group_id": "billing",
        "type": "consumer",
        "state": "Reconciling",
        "protocol_type": "consumer",
        "protocol": None,
        "generation_id": 3,
        "leader": None,
        "members": 2,
        "group_epoch": 3,
        "assignment_epoch": 3,
        "assignor": "range",
    }

    def partitions(*numbers: int) -> list[dict[str, Any]]:
        named = {"topic_id": id_text(topic_id), "topic": "orders"}
        return [{**named, "partitions": list(numbers)}] if numbers else []

    same = {
        "group_id": "billing",
        "client_host": "/127.0.0.1",
        "rebalance_timeout_ms": 60_000,
        "session_timeout_ms": 45_000,
        "subscription": None,
        "assignment": None,
        "member_type": "consumer",
        "subscribed_topic_names": ["orders"],
        "subscribed_topic_regex": "",
    }
    rows = members.to_pylist()
    assert all(isinstance(row.pop("client_id"), str) for row in rows)
    assert rows == [
        {
            **same,
            "member_id": "a",
            "group_instance_id": None,
            "member_epoch": 2,
            "previous_member_epoch": 2,
            "member_state": "UNREVOKED_PARTITIONS",
            "rack_id": "r1",
            "server_assignor": None,
            "assigned_partitions": partitions(2, 3),
            "partitions_pending_revocation": partitions(0, 1),
            "target_partitions": partitions(2, 3),
        },
        {
            **same,
            "member_id": "b",
            "group_instance_id": "i",
            "member_epoch": 3,
            "previous_member_epoch": 0,
            "member_state": "UNRELEASED_PARTITIONS",
            "rack_id": None,
            "server_assignor": "range",
            "assigned_partitions": [],
            "partitions_pending_revocation": [],
            "target_partitions": partitions(0, 1),
        },
    ]


def test_tables_survive_a_restart(tmp_path: Path) -> None:
    with Coordinator(tmp_path / "data", topics={"orders": 4}) as coordinator:
        beat(coordinator, "a", 0)
        before = coordinator.groups(), coordinator.members()
    with Coordinator(tmp_path / "data") as again:
        assert (again.groups(), again.members()) == before
        assert before[0]["state"].to_pylist() == ["Stable"]


def test_events_say_who_moved_the_epoch_and_who_has_to_give_up(tmp_path: Path) -> None:
    config = Config(group_consumer_assignment_interval_ms=0)
    with Coordinator(tmp_path / "data", topics={"orders": 4}, config=config) as coordinator:
        events = coordinator.events()
        beat(coordinator, "a", 0)
        beat(coordinator, "b", 0, server_assignor="range")
        beat(coordinator, "a", 2)
        beat(coordinator, "b", -1)
    told = [
        (
            event.kind,
            event.generation_id,
            event.cause,
            event.count,
            event.detail,
            event.member and event.member.member_id,
        )
        for event in events
    ]
    assert told == [
        ("group_created", 1, None, None, None, None),
        ("member_joined", 1, None, None, None, "a"),
        ("group_epoch_bumped", 2, "member_joined", None, None, "a"),
        ("target_computed", 2, None, 1, "uniform", None),
        ("member_reconciled", 2, None, 4, None, "a"),
        ("member_joined", 2, None, None, None, "b"),
        ("group_epoch_bumped", 3, "member_joined", None, None, "b"),
        ("target_computed", 3, None, 2, "range", None),
        ("member_reconciled", 3, None, 2, None, "a"),
        ("member_gone", 3, "left", None, None, "b"),
        ("group_epoch_bumped", 4, "member_left", None, None, "b"),
    ]
