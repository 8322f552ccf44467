"""Kafka's tools on a consumer group: kafka-consumer-groups, kafka-groups and kafka-configs."""

from __future__ import annotations

import time

import pytest
from clients.driver import ClientConsumer
from clients.fixtures import Crew
from support.cluster import Cluster
from support.kafka.tools import ToolError, tool

from tools.conftest import Tool
from tools.test_consumer_groups import OFFSETS, PARTITIONS, rows

pytestmark = [pytest.mark.java, pytest.mark.client]


@pytest.fixture
def topic(cluster: Cluster) -> str:
    return cluster.create_topic(PARTITIONS, records=20)


@pytest.fixture
def member(topic: str, crew: Crew) -> ClientConsumer:
    """The only member of the crew's consumer group, which has committed OFFSETS."""
    member = crew.open("confluent", "member", topics=[topic], protocol="consumer")
    member.wait_assignment(lambda owned: len(owned) == PARTITIONS, "all partitions")
    member.commit({(topic, partition): offset for partition, offset in OFFSETS.items()})
    return member


def test_a_live_group_is_listed_and_described(
    consumer_groups: Tool, cluster: Cluster, crew: Crew, member: ClientConsumer, topic: str
) -> None:
    group = crew.group
    listed = rows(consumer_groups("--list", "--state", "stable", "--type", "consumer"))
    assert {row["GROUP"]: row["TYPE"] for row in listed}[group] == "Consumer"
    assert group not in consumer_groups("--list", "--type", "classic").split()
    groups = tool("groups", "--bootstrap-server", cluster.address, "--list", "--consumer")
    assert [group, "Consumer", "consumer"] in [line.split() for line in groups.splitlines()]

    offsets = rows(consumer_groups("--describe", "--group", group))
    assert {int(row["PARTITION"]): int(row["CURRENT-OFFSET"]) for row in offsets} == OFFSETS
    assert {(row["TOPIC"], row["CLIENT-ID"], row["HOST"]) for row in offsets} == {
        (topic, member.name, "/127.0.0.1")
    }
    (member_id,) = {row["CONSUMER-ID"] for row in offsets}

    (described,) = rows(consumer_groups("--describe", "--members", "--verbose", "--group", group))
    assert (described["CONSUMER-ID"], described["#PARTITIONS"]) == (member_id, "3")
    assert f"{topic}:0,1,2" in described.values()

    (state,) = rows(consumer_groups("--describe", "--state", "--verbose", "--group", group))
    assert (state["ASSIGNMENT-STRATEGY"], state["STATE"], state["#MEMBERS"]) == (
        "uniform", "Stable", "1",
    )  # fmt: skip
    assert state["GROUP-EPOCH"] == state["TARGET-ASSIGNMENT-EPOCH"] == "2"


def test_settings_of_a_group_reach_its_members(
    consumer_groups: Tool, cluster: Cluster, crew: Crew, member: ClientConsumer
) -> None:
    configs = ("configs", "--bootstrap-server", cluster.address, "--entity-type", "groups")
    of_group = (*configs, "--entity-name", crew.group)
    tool(*of_group, "--alter", "--add-config", "consumer.session.timeout.ms=50000")
    # Two processes: a broker tells its settings when it has heard of them from the controller.
    deadline = time.monotonic() + 60
    while "consumer.session.timeout.ms=50000" not in (told := tool(*of_group, "--describe")):
        assert time.monotonic() < deadline, told
    with pytest.raises(ToolError, match="must be in the range"):
        tool(*of_group, "--alter", "--add-config", "consumer.session.timeout.ms=999999999")
    tool(*of_group, "--alter", "--delete-config", "consumer.session.timeout.ms")
    assert member.failure is None


def test_a_group_is_deleted_when_it_is_idle(
    consumer_groups: Tool, crew: Crew, member: ClientConsumer, topic: str
) -> None:
    group = ("--group", crew.group)
    with pytest.raises(ToolError, match="not empty"):
        consumer_groups("--delete", *group)
    with pytest.raises(ToolError, match="inactive"):
        consumer_groups("--reset-offsets", *group, "--to-earliest", "--topic", topic, "--execute")
    with pytest.raises(ToolError, match="subscribed"):
        consumer_groups("--delete-offsets", *group, "--topic", topic)
    member.close()
    consumer_groups("--reset-offsets", *group, "--to-earliest", "--topic", topic, "--execute")
    offsets = rows(consumer_groups("--describe", *group))
    assert {row["CURRENT-OFFSET"] for row in offsets} == {"0"}
    consumer_groups("--delete", *group)
    assert crew.group not in consumer_groups("--list").split()
