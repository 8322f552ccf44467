"""Each client library's commits, where it resumes, and where it starts without a commit."""

from __future__ import annotations

import pytest
from support.cluster import Cluster

from clients.fixtures import LANGUAGES, Crew
from clients.test_membership import partitions_of, wait_shared
from clients.test_restart import Offsets, commit_until_taken, committed_by

pytestmark = pytest.mark.client

LIBRARIES = tuple(LANGUAGES)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_successor_resumes_from_the_commit(library: str, cluster: Cluster, crew: Crew) -> None:
    topic = cluster.create_topic(4, records=20)
    everything = partitions_of(topic, 4)
    offsets: Offsets = {partition: 10 + partition[1] for partition in everything}
    first = crew.open(library, "first", topics=[topic])
    wait_shared([first], everything)
    if cluster.is_several:
        commit_until_taken([first], offsets)
    else:
        first.commit(offsets)
    assert committed_by(first, everything) == offsets
    first.close()

    second = crew.open(library, "second", topics=[topic])
    wait_shared([second], everything)
    assert committed_by(second, everything) == offsets
    assert second.started(everything) == offsets


@pytest.mark.parametrize("reset", ["earliest", "latest"])
@pytest.mark.parametrize("library", LIBRARIES)
def test_without_a_commit_the_reset_policy_decides(
    library: str, reset: str, cluster: Cluster, crew: Crew
) -> None:
    topic = cluster.create_topic(1, records=5)
    start = cluster.log_bounds(topic, 0)[("earliest", "latest").index(reset)]
    consumer = crew.open(library, "only", topics=[topic], reset=reset)
    wait_shared([consumer], partitions_of(topic, 1))
    assert committed_by(consumer, [(topic, 0)]) == {(topic, 0): None}
    if cluster.holds_records and reset == "latest":
        assert start == 5
    assert consumer.started([(topic, 0)]) == {(topic, 0): start}
