"""kafka-consumer-groups: list, describe, reset, delete. The same passes against Apache Kafka."""

from __future__ import annotations

import pytest
from clients.driver import ClientConsumer
from clients.fixtures import Crew
from support.cluster import Cluster
from support.kafka.tools import ToolError

from tools.conftest import Tool

pytestmark = [pytest.mark.java, pytest.mark.client]

PARTITIONS = 3
OFFSETS = {0: 5, 1: 6, 2: 7}


def rows(output: str) -> list[dict[str, str]]:
    """Returns a tool's table as one dictionary a line, by column heading."""
    lines = [line.split() for line in output.splitlines() if line.strip()]
    heading = next(line for line in lines if line[0] == "GROUP")
    return [dict(zip(heading, line, strict=False)) for line in lines if line is not heading]


@pytest.fixture
def topic(cluster: Cluster) -> str:
    return cluster.create_topic(PARTITIONS, records=20)


@pytest.fixture
def member(topic: str, crew: Crew) -> ClientConsumer:
    """The only member of the crew's group, which has committed OFFSETS."""
    member = crew.open("confluent", "member", topics=[topic], assignor="range")
    member.wait_assignment(lambda owned: len(owned) == PARTITIONS, "all partitions")
    member.commit({(topic, partition): offset for partition, offset in OFFSETS.items()})
    return member


def test_a_live_group_is_listed_and_described(
    consumer_groups: Tool, crew: Crew, member: ClientConsumer, topic: str
) -> None:
    group = crew.group
    assert group in consumer_groups("--list").split()
    listed = rows(consumer_groups("--list", "--state", "stable", "--type", "classic"))
    assert {row["GROUP"]: row["STATE"] for row in listed}[group] == "Stable"

    offsets = rows(consumer_groups("--describe", "--group", group))
    assert {int(row["PARTITION"]): int(row["CURRENT-OFFSET"]) for row in offsets} == OFFSETS
    assert {(row["TOPIC"], row["CLIENT-ID"], row["HOST"]) for row in offsets} == {
        (topic, member.name, "/127.0.0.1")
    }
    (member_id,) = {row["CONSUMER-ID"] for row in offsets}
    assert member_id.startswith(f"{member.name}-")

    members = rows(consumer_groups("--describe", "--members", "--verbose", "--group", group))
    assert [(row["CONSUMER-ID"], row["#PARTITIONS"]) for row in members] == [(member_id, "3")]
    assert f"{topic}:0,1,2" in members[0].values()

    (state,) = rows(consumer_groups("--describe", "--state", "--group", group))
    assert (state["ASSIGNMENT-STRATEGY"], state["STATE"], state["#MEMBERS"]) == (
        "range", "Stable", "1",
    )  # fmt: skip


def test_a_live_group_is_not_reset_nor_deleted(
    cluster: Cluster, consumer_groups: Tool, crew: Crew, member: ClientConsumer, topic: str
) -> None:
    group = ("--group", crew.group)
    with pytest.raises(ToolError, match="inactive"):
        consumer_groups("--reset-offsets", *group, "--to-earliest", "--topic", topic, "--execute")
    with pytest.raises(ToolError, match="not empty"):
        consumer_groups("--delete", *group)
    with pytest.raises(ToolError, match="subscribed"):
        consumer_groups("--delete-offsets", *group, "--topic", topic)
    committed = member.committed((topic, partition) for partition in OFFSETS)
    assert {partition: offset for (_, partition), offset in committed.items()} == OFFSETS


def test_an_idle_group_is_reset_and_deleted(
    consumer_groups: Tool, crew: Crew, member: ClientConsumer, topic: str
) -> None:
    member.close()
    group = ("--group", crew.group)
    (state,) = rows(consumer_groups("--describe", "--state", *group))
    assert state["STATE"] == "Empty"

    consumer_groups(
        "--reset-offsets", *group, "--topic", f"{topic}:1", "--to-earliest", "--execute"
    )
    assert current_offsets(consumer_groups, crew.group) == {0: 5, 1: 0, 2: 7}

    consumer_groups("--delete-offsets", *group, "--topic", f"{topic}:2")
    assert current_offsets(consumer_groups, crew.group) == {0: 5, 1: 0}

    consumer_groups("--delete", *group)
    assert crew.group not in consumer_groups("--list").split()


@pytest.mark.parametrize("place", [("--to-offset", "1000"), ("--to-latest",), ("--shift-by", "99")])
def test_a_reset_forward_never_puts_a_group_below_what_it_has_committed(
    consumer_groups: Tool, cluster: Cluster, crew: Crew, member: ClientConsumer, topic: str,
    place: tuple[str, ...],
) -> None:  # fmt: skip
    """The tool clamps the place to the end that it is told."""
    member.close()
    consumer_groups("--reset-offsets", "--group", crew.group, "--topic", topic, *place, "--execute")
    ends = {partition: cluster.log_bounds(topic, partition)[1] for partition in OFFSETS}
    assert current_offsets(consumer_groups, crew.group) == ends
    assert all(ends[partition] >= offset for partition, offset in OFFSETS.items())


def current_offsets(consumer_groups: Tool, group: str) -> dict[int, int]:
    table = rows(consumer_groups("--describe", "--group", group))
    return {int(row["PARTITION"]): int(row["CURRENT-OFFSET"]) for row in table}
