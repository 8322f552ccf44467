"""Consumer groups in the form of the recorded `expected.json`, asked over TCP or read elsewhere.

Lists are in one order here: Kafka's own is that of hash maps.
"""

from __future__ import annotations

import base64
import dataclasses
import time
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
# Of a heartbeat that only tells that its member is there.
SAYS_NOTHING: dict[str, Any] = {
    "rebalance_timeout": timedelta(milliseconds=-1),
    "subscribed_topic_names": None,
    "topic_partitions": None,
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


def drive_consumer_groups(asked: Asked, topic: str) -> list[str]:
    """Leaves consumer groups in all the states that a log can show; their ids. The topic has at
    least 4 partitions."""
    names = {"subscribed_topic_names": (topic,)}
    _settle(asked, "native", {"a": names, "b": {**names, "rack_id": "r1"}})
    _settle(asked, "by-range", {"a": {**names, "server_assignor": "range"}})
    regex = {"subscribed_topic_names": (), "subscribed_topic_regex": f"{topic[:3]}.*"}
    _settle(asked, "by-regex", {"a": regex})
    _settle(asked, "static", {"a": {**names, "instance_id": "i"}, "b": names})
    beat(asked, "static", "a", member_epoch=-2, instance_id="i", **SAYS_NOTHING)
    beat(asked, "revoking", "a", **names)
    beat(asked, "revoking", "b", **names)
    epoch = asked_epoch(asked, "revoking", "a")
    beat(asked, "revoking", "a", member_epoch=epoch, **SAYS_NOTHING)
    _settle(asked, "emptied", {"a": names})
    beat(asked, "emptied", "a", member_epoch=-1, **SAYS_NOTHING)
    return ["native", "by-range", "by-regex", "static", "revoking", "emptied"]


def asked_epoch(asked: Asked, group: str, member_id: str) -> int:
    """A member's epoch, as ConsumerGroupDescribe tells it."""
    members = described_consumer_groups(asked, [group])[group]["members"]
    return next(int(of["memberEpoch"]) for of in members if of["memberId"] == member_id)


def _settle(asked: Asked, group: str, members: Mapping[str, Mapping[str, Any]]) -> None:
    """All join, and heartbeat with what they were given until the group is Stable."""
    given = {}
    for member_id, fields in members.items():
        given[member_id] = beat(asked, group, member_id, **fields)
    deadline = time.monotonic() + 60
    while True:
        for member_id, last in given.items():
            owned = last.assignment.topic_partitions if last.assignment else ()
            said = {
                **SAYS_NOTHING,
                "member_epoch": last.member_epoch,
                "instance_id": members[member_id].get("instance_id"),
                "topic_partitions": tuple(
                    {"topic_id": of.topic_id, "partitions": of.partitions} for of in owned
                ),
            }
            answer = beat(asked, group, member_id, **said)
            is_news = answer.assignment is not None
            given[member_id] = answer if is_news else _newer(last, answer)
        described = described_consumer_groups(asked, [group])[group]
        if described["state"] == "Stable" and all(
            member["assignment"] for member in described["members"]
        ):
            return
        assert time.monotonic() < deadline, described


def _newer(last: Any, answer: Any) -> Any:
    """The partitions are those of the answer before, the epoch is the new one."""
    return dataclasses.replace(answer, assignment=last.assignment)


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
