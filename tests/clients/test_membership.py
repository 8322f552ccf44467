"""Each client library's consumers join, share, leave, die, and follow their topics.

The same scenarios pass against Apache Kafka (`--server kafka`); none knows which server it has.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
from support.cluster import Cluster

from clients.driver import WAIT_S, ClientConsumer, Partition
from clients.fixtures import LANGUAGES, Crew, Programs

pytestmark = pytest.mark.client

LIBRARIES = tuple(LANGUAGES)
COOPERATIVE = ("confluent", "kafka_python", "java", "franz-go")
# kafkajs resolves a pattern once, when it subscribes.
FOLLOWS_PATTERNS = ("confluent", "kafka_python", "aiokafka", "java", "franz-go")
# kafka-go's subscriptions end early (version 1 without owned partitions): Java's leader gives up.
LED_BY_EACH_OTHER = tuple(library for library in LIBRARIES if library != "kafka-go")
SHORT_SESSION_MS = 4_000


def partitions_of(topic: str, count: int) -> frozenset[Partition]:
    return frozenset((topic, partition) for partition in range(count))


def wait_shared(
    consumers: list[ClientConsumer],
    partitions: frozenset[Partition],
    timeout_s: float = WAIT_S,
) -> None:
    """Waits until every partition has one owner and the shares differ by one at most."""
    sizes = {len(partitions) // len(consumers), -(-len(partitions) // len(consumers))}

    def is_shared() -> bool:
        owned = [consumer.assignment for consumer in consumers]
        return (
            frozenset().union(*owned) == partitions
            and sum(map(len, owned)) == len(partitions)
            and {len(share) for share in owned} <= sizes
        )

    for consumer in consumers:
        share = f"a share of {len(partitions)} partitions"
        consumer.wait_assignment(lambda _: is_shared(), share, timeout_s)


@pytest.mark.parametrize("library", LIBRARIES)
def test_members_share_what_one_had_and_take_over_what_one_leaves(
    library: str, cluster: Cluster, crew: Crew
) -> None:
    topic = cluster.create_topic(6)
    everything = partitions_of(topic, 6)
    first = crew.open(library, "first", topics=[topic])
    wait_shared([first], everything)
    assert first.started(everything) == dict.fromkeys(everything, 0)

    second = crew.open(library, "second", topics=[topic])
    wait_shared([first, second], everything)

    first.close()
    wait_shared([second], everything)


@pytest.mark.parametrize("library", LIBRARIES)
def test_what_a_killed_member_had_is_taken_over(
    library: str, cluster: Cluster, crew: Crew, programs: Programs
) -> None:
    topic = cluster.create_topic(6)
    everything = partitions_of(topic, 6)
    survivor = crew.open(library, "survivor", topics=[topic])
    victim = crew.open(
        library, "victim", program=programs.another(library), topics=[topic],
        session_timeout_ms=SHORT_SESSION_MS,
    )  # fmt: skip
    wait_shared([survivor, victim], everything)

    victim.program.kill()
    wait_shared([survivor], everything)


@pytest.mark.parametrize("library", COOPERATIVE)
def test_cooperative_members_keep_what_does_not_move(
    library: str, cluster: Cluster, new_crew: Callable[[Cluster], Crew]
) -> None:
    topic = cluster.create_topic(6)
    everything = partitions_of(topic, 6)
    settings = {"topics": [topic], "assignor": "cooperative-sticky"}
    # A generation whose node is killed between JoinGroup and SyncGroup is known to nobody, as with
    # Kafka: who syncs in it hears ILLEGAL_GENERATION, and counts all as lost. Of several nodes one
    # is killed in a test, and shards move back to it: another group has its second join then.
    for tries_left in reversed(range(3 if cluster.is_several else 1)):
        crew = new_crew(cluster)
        first = crew.open(library, "first", **settings)
        wait_shared([first], everything)
        alone = len(first.events)

        second = crew.open(library, "second", **settings)
        wait_shared([first, second], everything)
        lost = [event for event in first.events if event.kind == "lost"]
        if not (lost and tries_left):
            break

    kept = first.assignment
    revoked = [event.partitions for event in first.events[alone:] if event.kind == "revoked"]
    assert frozenset().union(*revoked) == everything - kept == second.assignment
    assert all(event.assignment >= kept for event in first.events[alone:])
    assert not lost


@pytest.mark.parametrize("library", FOLLOWS_PATTERNS)
def test_a_pattern_takes_in_a_new_topic(library: str, cluster: Cluster, crew: Crew) -> None:
    prefix = f"{crew.group}-pattern"
    first = cluster.create_topic(2, prefix)
    settings = {"pattern": f"^{prefix}-.*", "metadata_max_age_ms": 500}
    consumer = crew.open(library, "only", **settings)
    wait_shared([consumer], partitions_of(first, 2))

    second = cluster.create_topic(3, prefix)
    wait_shared([consumer], partitions_of(first, 2) | partitions_of(second, 3))


@pytest.mark.parametrize("library", LIBRARIES)
def test_added_partitions_are_assigned(library: str, cluster: Cluster, crew: Crew) -> None:
    topic = cluster.create_topic(2)
    settings = {"topics": [topic], "metadata_max_age_ms": 500}
    consumers = [crew.open(library, name, **settings) for name in ("first", "second")]
    wait_shared(consumers, partitions_of(topic, 2))

    def grow(partitions: int, timeout_s: float = WAIT_S) -> None:
        cluster.raise_partitions(topic, partitions)
        wait_shared(consumers, partitions_of(topic, partitions), timeout_s)

    # kafka-go compares with a count that it takes itself after an assignment. It does not see
    # partitions that are added before that; it sees those that are added later.
    for partitions, timeout_s in ((3, 2.0), (4, 6.0)) if library == "kafka-go" else ():
        with contextlib.suppress(TimeoutError):
            grow(partitions, timeout_s)
            return
    grow(6)


def test_one_group_of_every_library(cluster: Cluster, crew: Crew, programs: Programs) -> None:
    """Their protocol versions differ widely (JoinGroup v5 to v9); they share the range assignor."""
    topic = cluster.create_topic(12)
    everything = partitions_of(topic, 12)
    libraries = [library for library in LED_BY_EACH_OTHER if programs.is_available(library)]
    members = [crew.open(library, library, topics=[topic]) for library in libraries]
    wait_shared(members, everything)

    leavers = members[::2]
    for leaver in leavers:
        leaver.close()
    wait_shared([member for member in members if member not in leavers], everything)
