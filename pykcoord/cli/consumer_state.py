"""A consumer group of `log state`: as ConsumerGroupDescribe shows it, and what that leaves out."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

__all__ = ["described", "reconciling"]

Names = Mapping[bytes, str]


def described(partition: int, row: tuple[Any, ...], names: Names) -> dict[str, Any]:
    """The group of a `Node.groups` row, in the field names of ConsumerGroupDescribe v1. Partitions
    that a member has yet to give up count as its own, as there. `topicName` is None where none is
    known."""
    *_, members, of = row
    return {
        "partition": partition,
        "type": row[1],
        "state": row[2],
        "protocolType": row[3],
        "groupEpoch": of["group_epoch"],
        "assignmentEpoch": of["assignment_epoch"],
        "assignorName": of["assignor_name"],
        "members": [_member(member, names) for member in members],
    }


def reconciling(row: tuple[Any, ...], names: Names) -> dict[str, Any]:
    """What the records of the group say besides: how far its members are from their targets, and
    which topics the regular expressions match."""
    *_, members, of = row
    return {
        "assignmentTimestamp": of["assignment_timestamp_ms"],
        "regularExpressions": {
            regular_expression: {"topics": topics, "timestamp": timestamp_ms}
            for regular_expression, (topics, timestamp_ms) in of["regular_expressions"].items()
        },
        "members": {member[0]: _step(member, names) for member in members},
    }


def _member(member: tuple[Any, ...], names: Names) -> dict[str, Any]:
    member_id, instance_id, client_id, client_host, *_, of = member
    has: dict[bytes, list[int]] = {}
    for topic_id, partitions in (*of["assigned"], *of["pending_revocation"]):
        has.setdefault(topic_id, []).extend(partitions)
    return {
        "memberId": member_id,
        "instanceId": instance_id,
        "rackId": of["rack_id"],
        "memberEpoch": of["member_epoch"],
        "clientId": client_id,
        "clientHost": client_host,
        "subscribedTopicNames": of["subscribed_topic_names"],
        "subscribedTopicRegex": of["subscribed_topic_regex"],
        "assignment": {"topicPartitions": _topics(sorted(has.items()), names)},
        "targetAssignment": {"topicPartitions": _topics(of["target"], names)},
        "memberType": of["member_type"],
    }


def _step(member: tuple[Any, ...], names: Names) -> dict[str, Any]:
    of = member[-1]
    return {
        "state": of["state"],
        "previousMemberEpoch": of["previous_member_epoch"],
        "rebalanceTimeoutMs": member[4],
        "serverAssignor": of["server_assignor"],
        "partitionsPendingRevocation": _topics(of["pending_revocation"], names),
    }


def _topics(topics: list[tuple[bytes, list[int]]], names: Names) -> list[dict[str, Any]]:
    return [
        {
            "topicId": base64.urlsafe_b64encode(topic_id).decode().rstrip("="),
            "topicName": names.get(topic_id),
            "partitions": sorted(partitions),
        }
        for topic_id, partitions in topics
    ]
