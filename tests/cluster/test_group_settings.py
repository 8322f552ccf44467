"""Topics and settings of groups are those of all nodes of a cluster, whichever was asked."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from support.members import SHARDS, Members, spread

from pykcoord._native import partition_of

pytestmark = pytest.mark.client

NODES = 2

SETTING = "consumer.heartbeat.interval.ms"
WAIT_S = 60


def admin(members: Members, node: int) -> AdminClient:
    return AdminClient({"bootstrap.servers": f"127.0.0.1:{members.ports[node]}"})


def value(members: Members, node: int, resource: ConfigResource, name: str) -> str:
    client = admin(members, node)
    described = client.describe_configs([resource], request_timeout=WAIT_S)
    return str(described[resource].result(WAIT_S)[name].value)


def test_what_one_node_was_told_all_do(members: Members) -> None:
    group = ConfigResource(ResourceType.GROUP, "billing")
    entry = ConfigEntry(SETTING, "7000", incremental_operation=AlterConfigOpType.SET)
    wanted = ConfigResource(ResourceType.GROUP, "billing", incremental_configs=[entry])
    first, second = admin(members, 1), admin(members, 2)
    second.incremental_alter_configs([wanted])[wanted].result(WAIT_S)
    for node in (1, 2):
        members.wait(
            lambda node=node: value(members, node, group, SETTING) == "7000",
            "this node does as the other was told",
        )
    first.create_topics([NewTopic("later", 3)])["later"].result(WAIT_S)
    members.wait(
        lambda: "later" in second.list_topics(timeout=WAIT_S).topics,
        "the other node has the topic",
    )


def test_a_partition_ends_where_groups_of_any_node_have_come(members: Members) -> None:
    """The node that a client asks for the end is not the one that knows the commit."""
    groups = {partition_of(f"g{n}", SHARDS): f"g{n}" for n in range(60)}
    bootstrap = {"bootstrap.servers": members.bootstrap}
    spread(members)  # the client does not commit again by itself when a shard moves
    for shard, group in groups.items():
        consumer = Consumer({**bootstrap, "group.id": group})
        consumer.commit(offsets=[TopicPartition("orders", shard, 17 + shard)], asynchronous=False)
        consumer.close()
    consumer = Consumer({**bootstrap, "group.id": "ends"})
    try:
        for shard in groups:
            of_shard = TopicPartition("orders", shard)
            members.wait(
                lambda of=of_shard: _end(consumer, of) == 17 + of.partition,
                "this node knows what another one does",
            )
    finally:
        consumer.close()


def _end(consumer: Consumer, partition: TopicPartition) -> int | None:
    """None: librdkafka gave up the connection while it asked, since the list of brokers that it was
    told of is another. It does not ask again by itself."""
    try:
        return consumer.get_watermark_offsets(partition, WAIT_S)[1]
    except KafkaException as error:
        if error.args[0].code() != KafkaError._DESTROY_BROKER:
            raise
        return None


def test_the_settings_that_a_node_was_started_with_are_shown(members: Members) -> None:
    node = ConfigResource(ResourceType.BROKER, "1")
    assert value(members, 1, node, "offsets.topic.num.partitions") == "6"
