"""Groups and offsets as their coordinators tell them: what a cluster's admin API answers, in the
same values as what is read from its log. Codes of errors become exceptions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kio.schema.consumer_group_describe.v0.request import ConsumerGroupDescribeRequest
from kio.schema.describe_groups.v5.request import DescribeGroupsRequest
from kio.schema.list_groups.v4.request import ListGroupsRequest as ListGroupsV4
from kio.schema.list_groups.v5.request import ListGroupsRequest as ListGroupsV5
from kio.schema.offset_fetch.v8.request import OffsetFetchRequest, OffsetFetchRequestGroup
from kio.schema.share_group_describe.v1.request import ShareGroupDescribeRequest
from kio.schema.streams_group_describe.v0.request import StreamsGroupDescribeRequest
from kio.schema.types import GroupId

from pykcoord.kafka.cluster import Cluster
from pykcoord.kafka.errors import ClusterError
from pykcoord.record_fields import assignment_of, subscription_of
from pykcoord.watch.model import WatchedGroup, WatchedMember, WatchedOffset

__all__ = ["describe", "fetch_offsets", "list_groups"]

_LIST_GROUPS = 16
_NO_ID = bytes(16)
_GROUP_ID_NOT_FOUND = 69
_DESCRIBE: dict[str, Any] = {
    "consumer": ConsumerGroupDescribeRequest,
    "share": ShareGroupDescribeRequest,
    "streams": StreamsGroupDescribeRequest,
}


async def list_groups(cluster: Cluster, node_id: int) -> dict[str, str]:
    """The groups that a broker coordinates, by id, with their types. Before Kafka 3.8 all are
    `classic`. Raises ClusterError."""
    connection = await cluster.control(node_id)
    if connection.has(_LIST_GROUPS, 5):
        answer = await connection.ask(ListGroupsV5(states_filter=(), types_filter=()))
    else:
        answer = await connection.ask(ListGroupsV4(states_filter=()))
    _check(answer.error_code, connection.address, "ListGroups")
    return {
        str(one.group_id): (getattr(one, "group_type", "") or "classic").lower()
        for one in answer.groups
    }


async def describe(
    cluster: Cluster, node_id: int, kind: str, group_ids: Sequence[str]
) -> dict[str, WatchedGroup | None]:
    """Groups of one type as their coordinator describes them; None: it has no such group. Raises
    ClusterError where one cannot be described now."""
    ids = tuple(GroupId(one) for one in group_ids)
    if kind == "classic":
        request: Any = DescribeGroupsRequest(groups=ids, include_authorized_operations=False)
    else:
        request = _DESCRIBE[kind](group_ids=ids, include_authorized_operations=False)
    answer = await cluster.ask(node_id, request)
    found: dict[str, WatchedGroup | None] = {}
    for group in answer.groups:
        if group.error_code.value == _GROUP_ID_NOT_FOUND or group.group_state == "Dead":
            found[str(group.group_id)] = None
            continue
        _check(group.error_code, f"node {node_id}", f"group {group.group_id!r}")
        found[str(group.group_id)] = _classic(group) if kind == "classic" else _other(kind, group)
    return found


async def fetch_offsets(
    cluster: Cluster, node_id: int, group_ids: Iterable[str]
) -> dict[str, list[WatchedOffset]]:
    """All committed offsets of groups, by OffsetFetch. Raises ClusterError."""
    request = OffsetFetchRequest(
        groups=tuple(
            OffsetFetchRequestGroup(group_id=GroupId(one), topics=None) for one in group_ids
        ),
        require_stable=False,
    )
    answer = await cluster.ask(node_id, request)
    found: dict[str, list[WatchedOffset]] = {}
    for group in answer.groups:
        if group.error_code.value == _GROUP_ID_NOT_FOUND:
            found[str(group.group_id)] = []
            continue
        _check(group.error_code, f"node {node_id}", f"offsets of group {group.group_id!r}")
        found[str(group.group_id)] = sorted(
            WatchedOffset(
                str(group.group_id), str(topic.name), int(one.partition_index),
                int(one.committed_offset), int(one.committed_leader_epoch), one.metadata or "",
                -1, _NO_ID, False,
            )
            for topic in group.topics
            for one in topic.partitions
            if not one.error_code.value and one.committed_offset >= 0
        )  # fmt: skip
    return found


def _check(code: Any, address: str, what: str) -> None:
    if code.value:
        raise ClusterError(address, f"{what}: {code.name.upper()}")


def _classic(group: Any) -> WatchedGroup:
    members = []
    for one in group.members:
        is_consumer = group.protocol_type == "consumer"
        assignment = assignment_of(one.member_assignment) if is_consumer else None
        subscription = subscription_of(one.member_metadata) if is_consumer else None
        members.append(
            WatchedMember(
                one.member_id, one.group_instance_id, one.client_id, one.client_host, None,
                assignment["partitions"] if assignment else {},
                sorted(subscription["topics"]) if subscription else [],
            )
        )  # fmt: skip
    return WatchedGroup(
        str(group.group_id), "classic", group.group_state, None, group.protocol_data, members
    )


def _other(kind: str, group: Any) -> WatchedGroup:
    topics: dict[str, list[str]] = {}
    if kind == "streams" and group.topology is not None:
        topics = {
            one.subtopology_id: [
                *one.source_topics,
                *(of.name for of in one.repartition_source_topics),
            ]
            for one in group.topology.subtopologies or ()
        }
    return WatchedGroup(
        str(group.group_id), kind, group.group_state, int(group.group_epoch),
        getattr(group, "assignor_name", ""), [_member(kind, one, topics) for one in group.members],
    )  # fmt: skip


def _member(kind: str, member: Any, topics: dict[str, list[str]]) -> WatchedMember:
    owned: dict[str, list[int]] = {}
    if kind == "streams":
        for task in member.assignment.active_tasks:
            for topic in topics.get(task.subtopology_id, ()):
                owned.setdefault(str(topic), []).extend(map(int, task.partitions))
        subscribed = sorted({str(name) for of in topics.values() for name in of})
    else:
        for one in member.assignment.topic_partitions:
            owned.setdefault(str(one.topic_name), []).extend(map(int, one.partitions))
        subscribed = sorted(map(str, member.subscribed_topic_names))
    return WatchedMember(
        member.member_id, getattr(member, "instance_id", None), member.client_id,
        member.client_host, int(member.member_epoch),
        {topic: sorted(partitions) for topic, partitions in sorted(owned.items())}, subscribed,
    )  # fmt: skip
