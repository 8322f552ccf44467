"""Static members: a restart without a rebalance, and the fencing of a second instance."""

from __future__ import annotations

import pytest
from support.cluster import Cluster

from clients.driver import ClientError
from clients.fixtures import Crew
from clients.test_membership import partitions_of, wait_shared

pytestmark = pytest.mark.client

# kafkajs has no group.instance.id. aiokafka heartbeats at v1, without the instance, and so hears
# UNKNOWN_MEMBER_ID instead of being fenced.
STATIC = ("confluent", "kafka_python", "aiokafka", "java", "franz-go")
FENCED = ("confluent", "kafka_python", "java", "franz-go")


@pytest.mark.parametrize("library", STATIC)
def test_a_static_member_restarts_without_a_rebalance(
    library: str, cluster: Cluster, crew: Crew
) -> None:
    topic = cluster.create_topic(6)
    everything = partitions_of(topic, 6)
    first = crew.open(library, "first", topics=[topic], instance="one")
    second = crew.open(library, "second", topics=[topic], instance="two")
    wait_shared([first, second], everything)
    before = list(first.events)
    share = second.assignment
    second.close()

    again = crew.open(library, "again", topics=[topic], instance="two")
    wait_shared([first, again], everything)
    assert again.assignment == share
    assert first.events == before


@pytest.mark.parametrize("library", FENCED)
def test_a_second_instance_fences_the_first(library: str, cluster: Cluster, crew: Crew) -> None:
    topic = cluster.create_topic(2)
    everything = partitions_of(topic, 2)
    first = crew.open(library, "first", topics=[topic], instance="one")
    wait_shared([first], everything)

    second = crew.open(library, "second", topics=[topic], instance="one")
    wait_shared([second], everything)
    if library == "kafka_python":  # polls on without a word; its commit tells
        with pytest.raises(ClientError, match="FencedInstanceId"):
            first.commit({(topic, 0): 1})
    else:
        assert "fenced" in first.wait_failed().lower()
