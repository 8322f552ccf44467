"""Consumer groups in the form of the recorded `expected.json`, asked over TCP or read elsewhere.

Lists are in one order here: Kafka's own is that of hash maps.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from kio.schema.errors import ErrorCode

from pykcoord.catalogue import STATE_FILE, Topic, store_topics
from pykcoord.log.state_file import StateFile
from support.asked import Asked

HEARTBEAT, DESCRIBE = 68, 69
_HEARTBEAT_FIELDS: dict[str, Any] = {
    "member_epoch": 0,
    "instance_id": None,
    "rack_id": None,
    "rebalance_timeout": timedelta(minutes=25),
    "subscribed_topic_names": (),
    "subscribed_topic_regex": None,
    "server_assignor": None,
    "topic_partitions": (),
}
_TOLD_OF_GROUP = ("state", "groupEpoch", "assignmentEpoch", "assignorName")
_ASSIGNMENTS = ("assignment", "targetAssignment")


def expected_consumer_groups(expected: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Those of an `expected.json`, by id."""
    return {
        group_id: in_order(group)
        for group_id, group in expected["groups"].items()
        if group["type"] == "consumer"
    }


def in_order(group: Mapping[str, Any]) -> dict[str, Any]:
    members = sorted(map(_member_in_order, group["members"]), key=lambda m: str(m["memberId"]))
    return {**{name: group[name] for name in _TOLD_OF_GROUP}, "members": members}


def described_consumer_groups(asked: Asked, groups: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The answers of ConsumerGroupDescribe, by id."""
    group_ids = tuple(sorted(groups))
    if not group_ids:
        return {}
    response = asked.ask(
        DESCRIBE, 1, group_ids=group_ids, include_authorized_operations=False
    )  # fmt: skip
    found = {}
    for group in response.groups:
        assert group.error_code is ErrorCode.none, group
        found[str(group.group_id)] = in_order(
            {
                "state": group.group_state,
                "groupEpoch": group.group_epoch,
                "assignmentEpoch": group.assignment_epoch,
                "assignorName": group.assignor_name,
                "members": [_described_member(member) for member in group.members],
            }
        )
    return found


def beat(asked: Asked, group: str, member_id: str, **fields: Any) -> Any:
    """A heartbeat that is accepted, of a member that joins unless `member_epoch` says otherwise."""
    response = asked.ask(
        HEARTBEAT, 1, **{**_HEARTBEAT_FIELDS, **fields}, group_id=group, member_id=member_id
    )
    assert response.error_code is ErrorCode.none, response
    return response


def name_topics(directory: Path, expected: Mapping[str, Any]) -> None:
    """Tells a directory that has no catalogue yet the topics that Kafka had, with their ids."""
    topics = [
        Topic(name, uuid.UUID(bytes=base64.urlsafe_b64decode(of["id"] + "==")), of["partitions"])
        for name, of in expected["topics"].items()
    ]
    store_topics(StateFile(directory / STATE_FILE), topics)


def short_id(topic_id: uuid.UUID) -> str:
    """As Kafka writes it."""
    return base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def _member_in_order(member: Mapping[str, Any]) -> dict[str, Any]:
    assignments = {
        name: sorted(
            (
                {**topic, "partitions": sorted(topic["partitions"])}
                for topic in member[name]["topicPartitions"]
            ),
            key=lambda topic: str(topic["topicId"]),
        )
        for name in _ASSIGNMENTS
    }
    names = sorted(member["subscribedTopicNames"])
    return {**member, "subscribedTopicNames": names, **assignments}


def _described_member(member: Any) -> dict[str, Any]:
    return {
        "memberId": member.member_id,
        "instanceId": member.instance_id,
        "rackId": member.rack_id,
        "memberEpoch": member.member_epoch,
        "clientId": member.client_id,
        "clientHost": member.client_host,
        "subscribedTopicNames": list(member.subscribed_topic_names),
        "subscribedTopicRegex": member.subscribed_topic_regex,
        "assignment": _described_assignment(member.assignment),
        "targetAssignment": _described_assignment(member.target_assignment),
        "memberType": member.member_type,
    }


def _described_assignment(assignment: Any) -> dict[str, Any]:
    return {
        "topicPartitions": [
            {
                "topicId": short_id(topic.topic_id),
                "topicName": topic.topic_name,
                "partitions": list(topic.partitions),
            }
            for topic in assignment.topic_partitions
        ]
    }
