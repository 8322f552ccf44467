"""Differences of the clients' own assignors from Java's of the same name; the drop-ins have none.

When a case here fails because a client has mended it, the case may go.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import aiokafka.structs
import kafka.structs
from aiokafka.coordinator.assignors.range import RangePartitionAssignor as AiokafkaRange
from aiokafka.coordinator.assignors.sticky.sticky_assignor import (
    StickyPartitionAssignor as AiokafkaSticky,
)
from aiokafka.coordinator.protocol import ConsumerProtocol
from kafka.coordinator.assignors.cooperative_sticky import (
    CooperativeStickyAssignor as KafkaPythonCooperative,
)
from kafka.coordinator.assignors.range import RangePartitionAssignor as KafkaPythonRange
from kafka.coordinator.assignors.sticky.sticky_assignor import (
    StickyPartitionAssignor as KafkaPythonSticky,
)
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

import pykcoord
from pykcoord import Subscription
from pykcoord._native import read_sticky_user_data
from pykcoord.assignors import decode_subscription, encode_subscription, sticky_user_data
from pykcoord.clients import kafka_python

TOPICS = {"t": 6}
CLUSTER: Any = SimpleNamespace(
    partitions_for_topic=lambda topic: set(range(TOPICS[topic])), topics=lambda: set(TOPICS)
)


def _members(subscriptions: dict[str, Subscription]) -> list[Any]:
    return [
        SimpleNamespace(
            member_id=member,
            group_instance_id=given.group_instance_id,
            metadata=ConsumerProtocolSubscription.decode(encode_subscription(given)),
        )
        for member, given in subscriptions.items()
    ]


def test_kafka_python_and_java_do_not_read_each_others_sticky_user_data() -> None:
    """kafka-python 3 puts a version in front, which Java neither writes nor expects."""
    java = Subscription(["t"], user_data=sticky_user_data([("t", 4), ("t", 5)], 3))
    (member,) = _members({"java": java})
    assert KafkaPythonSticky.parse_member_metadata(member.metadata).partitions == []

    own = KafkaPythonSticky()
    own.member_assignment, own.generation = [kafka.structs.TopicPartition("t", 4)], 3
    sent = decode_subscription(own.metadata({"t"}).encode()).user_data
    assert sent is not None
    assert ("t", 4) not in read_sticky_user_data(sent)[0]

    drop_in = kafka_python.StickyAssignor()
    drop_in._member.assigned([("t", 4)], 3)
    sent = decode_subscription(drop_in.metadata({"t"})).user_data
    assert sent is not None
    assert read_sticky_user_data(sent) == ([("t", 4)], 3)


def test_kafka_pythons_range_forgets_static_members_that_joined_apart() -> None:
    members = {
        "a": Subscription(["t"], group_instance_id="one"),
        "b": Subscription(["t"]),
        "c": Subscription(["t"], group_instance_id="two"),
    }
    own = KafkaPythonRange.assign(CLUSTER, _members(members))
    assert [len(own[member].partitions()) for member in members] == [0, 3, 3]
    java = pykcoord.assign("range", TOPICS, members, compat="java")
    assert [len(java[member]) for member in members] == [2, 2, 2]
    sent = kafka_python.RangeAssignor().assign(CLUSTER, _members(members))
    decoded = {m: ConsumerProtocol.ASSIGNMENT.decode(data).partitions() for m, data in sent.items()}
    assert decoded == java


def test_kafka_pythons_cooperative_leader_believes_stale_claims() -> None:
    """Its members send no generation, so partitions that an expelled one had count as owned."""
    own = KafkaPythonCooperative()
    own.member_assignment = [kafka.structs.TopicPartition("t", 0)]
    own.generation = 9
    sent = decode_subscription(own.metadata({"t"}).encode())
    assert (list(sent.owned_partitions), sent.generation_id) == ([("t", 0)], None)


def test_aiokafkas_sticky_consumers_of_one_process_claim_the_same() -> None:
    """The assignment of a member is kept in the class, which all consumers share."""
    given = ConsumerProtocol.ASSIGNMENT(0, [("t", [5])], b"")

    class Own(AiokafkaSticky):  # type: ignore[misc]
        """So that no other test sees it."""

    Own.on_assignment(given)
    sent = decode_subscription(Own.metadata(["t"]).encode()).user_data
    assert sent is not None, "of a consumer that never was given anything"
    assert read_sticky_user_data(sent) == ([("t", 5)], -1)


def test_aiokafkas_range_knows_no_static_members() -> None:
    members = {
        "a": Subscription(["t"], group_instance_id="two"),
        "b": Subscription(["t"], group_instance_id="one"),
    }
    decoded = {
        member: ConsumerProtocol.METADATA.decode(encode_subscription(given))
        for member, given in members.items()
    }
    own = AiokafkaRange.assign(CLUSTER, decoded)
    assert own["a"].partitions()[0] == aiokafka.structs.TopicPartition("t", 0)
    assert pykcoord.assign("range", TOPICS, members, compat="java")["b"][0] == ("t", 0)
