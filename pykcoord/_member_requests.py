"""The requests that a member in process sends, as kio entities."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta
from typing import Any, NamedTuple

from kio.schema.consumer_group_heartbeat.v0.request import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.join_group.v9.request import JoinGroupRequest, JoinGroupRequestProtocol
from kio.schema.leave_group.v5.request import LeaveGroupRequest, MemberIdentity
from kio.schema.offset_commit.v9.request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kio.schema.offset_fetch.v8.request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kio.schema.sync_group.v5.request import SyncGroupRequest, SyncGroupRequestAssignment
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i32, i32Timedelta, i64

from pykcoord import _arguments as arguments
from pykcoord.consumer_protocol import PROTOCOL_TYPE, encode_subscription
from pykcoord.errors import ArgumentError

logger = logging.getLogger("pykcoord.member")

PROTOCOL_NAME = "range"


class Identity(NamedTuple):
    """What a member says of itself in every join."""

    group_id: str
    topics: tuple[str, ...]
    session_timeout_ms: int
    rebalance_timeout_ms: int
    group_instance_id: str | None
    subscription: bytes

    @classmethod
    def checked(
        cls,
        group_id: str,
        topics: Iterable[str],
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        group_instance_id: str | None,
        sessions_ms: range,
    ) -> Identity:
        """Raises ArgumentError for what no coordinator takes. `sessions_ms`: the session timeouts
        that this one does."""
        if not arguments.text("group_id", group_id):
            raise ArgumentError("group_id", "a group with members needs a name")
        if isinstance(topics, str):
            raise ArgumentError("topics", f"a list of names, not one string: [{topics!r}]")
        with arguments.refusing("topics"):
            names = tuple(arguments.text("topics", name) for name in topics)
        if not names or not all(names):
            raise ArgumentError("topics", f"one name of a topic or more, not {names!r}")
        if group_instance_id is not None and not arguments.text(
            "group_instance_id", group_instance_id
        ):
            raise ArgumentError("group_instance_id", "a name, or None for a dynamic member")
        return cls(
            group_id,
            names,
            arguments.integer("session_timeout_ms", session_timeout_ms, sessions_ms),
            arguments.integer("rebalance_timeout_ms", rebalance_timeout_ms, range(1, 2**31)),
            group_instance_id,
            encode_subscription(names),
        )


def check_consumer(protocols: str, session_timeout_ms: int, heartbeat_interval_ms: int) -> None:
    """Raises ArgumentError where a member of a consumer group is not served, or names what the
    coordinator decides."""
    if "consumer" not in protocols.split(","):
        reason = f"group.coordinator.rebalance.protocols is {protocols!r}: no consumer groups here"
        raise ArgumentError("protocol", reason)
    for argument, value, usual, setting in (
        ("session_timeout_ms", session_timeout_ms, 45_000, "session.timeout.ms"),
        ("heartbeat_interval_ms", heartbeat_interval_ms, 3_000, "heartbeat.interval.ms"),
    ):
        if value != usual:
            reason = f"the coordinator decides in consumer groups: group.consumer.{setting}"
            raise ArgumentError(argument, reason)


def warn_of_missing(identity: Identity, known: Collection[str]) -> None:
    """Logs topics that do not exist, as Kafka's consumers do (NetworkClient's metadata)."""
    missing = [topic for topic in identity.topics if topic not in known]
    if missing:
        logger.warning(
            "a member of group %r subscribes to %s, which the coordinator does not know: it gets "
            "no partitions there until `add_topics` creates it (known: %s)",
            identity.group_id,
            ", ".join(map(repr, missing)),
            ", ".join(sorted(known)[:20]) or "none",
            extra={"event": "topic_missing", "group_id": identity.group_id, "topics": missing},
        )


def join(identity: Identity, member_id: str) -> JoinGroupRequest:
    protocol = JoinGroupRequestProtocol(name=PROTOCOL_NAME, metadata=identity.subscription)
    return JoinGroupRequest(
        group_id=GroupId(identity.group_id),
        session_timeout=_milliseconds(identity.session_timeout_ms),
        rebalance_timeout=_milliseconds(identity.rebalance_timeout_ms),
        member_id=member_id,
        group_instance_id=identity.group_instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocols=(protocol,),
    )


def sync(identity: Identity, joined: Any, assignments: Mapping[str, bytes]) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=GroupId(identity.group_id),
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        group_instance_id=identity.group_instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=joined.protocol_name,
        assignments=tuple(
            SyncGroupRequestAssignment(member_id=member, assignment=assignment)
            for member, assignment in assignments.items()
        ),
    )


def heartbeat(identity: Identity, member_id: str, generation: int) -> HeartbeatRequest:
    return HeartbeatRequest(
        group_id=GroupId(identity.group_id),
        generation_id=i32(generation),
        member_id=member_id,
        group_instance_id=identity.group_instance_id,
    )


def consumer_heartbeat(
    group_id: str,
    member_id: str,
    epoch: int,
    topics: Iterable[str] | None,
    owned: Mapping[Any, Iterable[int]] | None,
    *,
    rebalance_timeout_ms: int = 60_000,
    group_instance_id: str | None = None,
) -> ConsumerGroupHeartbeatRequest:
    """Of a member of a consumer group (KIP-848). `topics` and `owned` (topic id to partitions) are
    None where they have not changed; the timeout goes with `topics`."""
    return ConsumerGroupHeartbeatRequest(
        group_id=GroupId(group_id),
        member_id=member_id,
        member_epoch=i32(epoch),
        instance_id=group_instance_id,
        rebalance_timeout=_milliseconds(-1 if topics is None else rebalance_timeout_ms),
        subscribed_topic_names=None if topics is None else tuple(map(TopicName, topics)),
        topic_partitions=None
        if owned is None
        else tuple(
            TopicPartitions(topic_id=topic_id, partitions=tuple(map(i32, partitions)))
            for topic_id, partitions in owned.items()
        ),
    )


def leave(identity: Identity, member_id: str) -> LeaveGroupRequest:
    return LeaveGroupRequest(
        group_id=GroupId(identity.group_id),
        members=(MemberIdentity(member_id=member_id, reason="the member was closed"),),
    )


def commit(
    identity: Identity, member_id: str, generation: int, offsets: Mapping[tuple[str, int], int]
) -> OffsetCommitRequest:
    by_topic: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, partition), offset in arguments.offsets("offsets", offsets).items():
        by_topic.setdefault(topic, []).append(
            OffsetCommitRequestPartition(
                partition_index=i32(partition),
                committed_offset=i64(offset),
                committed_metadata="",
            )
        )
    return OffsetCommitRequest(
        group_id=GroupId(identity.group_id),
        generation_id_or_member_epoch=i32(generation),
        member_id=member_id,
        group_instance_id=identity.group_instance_id,
        topics=tuple(
            OffsetCommitRequestTopic(name=TopicName(topic), partitions=tuple(partitions))
            for topic, partitions in by_topic.items()
        ),
    )


def fetch(group_id: str, partitions: Iterable[tuple[str, int]] | None) -> OffsetFetchRequest:
    topics: tuple[OffsetFetchRequestTopics, ...] | None = None
    if partitions is not None:
        by_topic: dict[str, list[i32]] = {}
        for topic, partition in arguments.partitions("partitions", partitions):
            by_topic.setdefault(topic, []).append(i32(partition))
        topics = tuple(
            OffsetFetchRequestTopics(name=TopicName(topic), partition_indexes=tuple(numbers))
            for topic, numbers in by_topic.items()
        )
    group = OffsetFetchRequestGroup(group_id=GroupId(group_id), topics=topics)
    return OffsetFetchRequest(groups=(group,), require_stable=False)


def _milliseconds(value: int) -> i32Timedelta:
    return i32Timedelta.parse(timedelta(milliseconds=value))
