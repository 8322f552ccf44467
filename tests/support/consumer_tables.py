"""Consumer groups of the Arrow tables `groups` and `members` in the form of `expected.json`, with
all lists in one order: Kafka's own is that of hash maps.
"""

from __future__ import annotations

from typing import Any

from pykcoord.records import partition_of

Row = dict[str, Any]


def as_kafka_says(groups: list[Row], members: list[Row], shards: int) -> dict[str, Row]:
    """By group id, all consumer groups among the rows of both tables."""
    found = {}
    for group in groups:
        if group["type"] != "consumer":
            continue
        of = [member for member in members if member["group_id"] == group["group_id"]]
        assert group["members"] == len(of)
        found[group["group_id"]] = _in_order(
            {
                "partition": partition_of(group["group_id"], shards),
                "type": group["type"],
                "state": group["state"],
                "protocolType": group["protocol_type"],
                "groupEpoch": group["group_epoch"],
                "assignmentEpoch": group["assignment_epoch"],
                "assignorName": group["assignor"],
                "members": [_member(member) for member in of],
            }
        )
    return found


def consumers_of(expected: Row) -> dict[str, Row]:
    """Those of an `expected.json`."""
    groups = expected["groups"].items()
    return {name: _in_order(of) for name, of in groups if of["type"] == "consumer"}


def _member(member: Row) -> Row:
    return {
        "memberId": member["member_id"],
        "instanceId": member["group_instance_id"],
        "rackId": member["rack_id"],
        "memberEpoch": member["member_epoch"],
        "clientId": member["client_id"],
        "clientHost": member["client_host"],
        "subscribedTopicNames": member["subscribed_topic_names"],
        "subscribedTopicRegex": member["subscribed_topic_regex"],
        "assignment": _topics(
            _together(member["assigned_partitions"], member["partitions_pending_revocation"])
        ),
        "targetAssignment": _topics(member["target_partitions"]),
        "memberType": ("classic", "consumer").index(member["member_type"]),
    }


def _together(assigned: list[Row], pending: list[Row]) -> list[Row]:
    """What Kafka tells as the assignment of a member: also what it has still to give up."""
    topics: dict[str, Row] = {}
    for topic in (*assigned, *pending):
        kept = topics.setdefault(topic["topic_id"], {**topic, "partitions": []})
        kept["partitions"] = sorted([*kept["partitions"], *topic["partitions"]])
    return [*topics.values()]


def _topics(listed: list[Row]) -> Row:
    names = {"topicId": "topic_id", "topicName": "topic", "partitions": "partitions"}
    rows = [{of_kafka: topic[own] for of_kafka, own in names.items()} for topic in listed]
    return {"topicPartitions": rows}


def _in_order(group: Row) -> Row:
    members = sorted(map(_member_in_order, group["members"]), key=lambda one: str(one["memberId"]))
    return {**group, "members": members}


def _member_in_order(member: Row) -> Row:
    assignments = {
        name: sorted(member[name]["topicPartitions"], key=lambda topic: str(topic["topicId"]))
        for name in ("assignment", "targetAssignment")
    }
    names = sorted(member["subscribedTopicNames"])
    return {**member, "subscribedTopicNames": names, **assignments}
