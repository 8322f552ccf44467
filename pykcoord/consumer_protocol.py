"""Kafka's embedded consumer protocol, for members in process: subscriptions and assignments as
bytes inside JoinGroup and SyncGroup.

The coordinator itself never looks into these bytes except for the topics of a subscription.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable
from typing import NamedTuple

from kio.schema.consumer_protocol_assignment.v1.data import ConsumerProtocolAssignment
from kio.schema.consumer_protocol_assignment.v1.data import (
    TopicPartition as AssignedPartitions,
)
from kio.schema.consumer_protocol_subscription.v0.data import (
    ConsumerProtocolSubscription as SubscriptionV0,
)
from kio.schema.consumer_protocol_subscription.v1.data import ConsumerProtocolSubscription
from kio.schema.types import TopicName
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i32

__all__ = ["PROTOCOL_TYPE", "TopicPartition"]

PROTOCOL_TYPE = "consumer"
_VERSION = struct.Struct(">h")


class TopicPartition(NamedTuple):
    """A topic's name, and the number of one of its partitions: `partition` counts from 0."""

    topic: str
    partition: int


def encode_subscription(topics: Iterable[str]) -> bytes:
    """A subscription v1 without user data or owned partitions (KIP-429)."""
    subscription = ConsumerProtocolSubscription(
        topics=tuple(sorted(set(topics))), user_data=None, owned_partitions=()
    )
    out = io.BytesIO()
    out.write(_VERSION.pack(1))
    entity_writer(ConsumerProtocolSubscription)(out, subscription)
    return out.getvalue()


def subscribed_topics(metadata: bytes) -> tuple[str, ...]:
    """The topics of a subscription of any version: v0 is a prefix of them all."""
    subscription, _end = entity_reader(SubscriptionV0)(metadata, _VERSION.size)
    return tuple(subscription.topics)


def encode_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    """An assignment v1 without user data."""
    by_topic: dict[str, list[i32]] = {}
    for topic, partition in sorted(partitions):
        by_topic.setdefault(topic, []).append(i32(partition))
    assigned = tuple(
        AssignedPartitions(topic=TopicName(topic), partitions=tuple(numbers))
        for topic, numbers in by_topic.items()
    )
    out = io.BytesIO()
    out.write(_VERSION.pack(1))
    assignment = ConsumerProtocolAssignment(assigned_partitions=assigned, user_data=None)
    entity_writer(ConsumerProtocolAssignment)(out, assignment)
    return out.getvalue()


def decode_assignment(assignment: bytes) -> frozenset[TopicPartition]:
    """The partitions of an assignment of any version; empty bytes are no partitions."""
    if not assignment:
        return frozenset()
    decoded, _end = entity_reader(ConsumerProtocolAssignment)(assignment, _VERSION.size)
    return frozenset(
        TopicPartition(topic.topic, partition)
        for topic in decoded.assigned_partitions
        for partition in topic.partitions
    )
