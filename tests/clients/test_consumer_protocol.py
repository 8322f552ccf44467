"""Consumer groups (`group.protocol=consumer`) with the three libraries that have them, and a group
of five libraries that moves to the consumer protocol and back while it runs.

The same scenarios pass against Apache Kafka 4.4 (`--server kafka`).
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupState, ConsumerGroupType
from confluent_kafka.admin import AdminClient, ConsumerGroupListing
from support.cluster import Cluster, new_server

from clients.driver import WAIT_S, ClientConsumer, Partition
from clients.fixtures import Crew, Programs
from clients.test_membership import partitions_of, wait_shared
from clients.test_restart import commit_shares, commit_until_taken, committed_by

pytestmark = pytest.mark.client

LIBRARIES = ("confluent", "java", "franz-go")
# franz-go 1.22 leaves without its instance id, which Kafka refuses: its instance is free only when
# the session is over.
STATIC = ("confluent", "java")
STAYING_CLASSIC = ("kafka_python", "aiokafka")
SETTINGS = {
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "4000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "250",
    "group.consumer.assignment.interval.ms": "0",
}
# Topics that came into being are looked for ten seconds after the last look at the earliest.
LOOK_S = 60.0
# Five libraries after one another, with what they wait for each other.
MOVE_S = 60.0
# How long what one program said can take to be heard here after what another one said.
HEARD_LATE_S = 0.5
# Heartbeats of those who give up and of those who take over; no session, no rebalance timeout.
OWNERLESS_S = 5.0


@pytest.fixture(scope="module")
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("consumer-protocol") / "data"
    with new_server(request, directory, settings=SETTINGS).start() as server:
        yield Cluster(server)


@pytest.fixture
def mortal_cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    """One of the test's own, to be killed."""
    with new_server(request, tmp_path / "data", settings=SETTINGS).start() as server:
        yield Cluster(server)


def listing(cluster: Cluster, group: str) -> ConsumerGroupListing:
    admin = AdminClient({"bootstrap.servers": cluster.address})
    listed = admin.list_consumer_groups().result(WAIT_S).valid
    return next(one for one in listed if one.group_id == group)


def group_type(cluster: Cluster, group: str) -> ConsumerGroupType:
    return listing(cluster, group).type


def wait_settled(cluster: Cluster, crew: Crew, partitions: frozenset[Partition]) -> None:
    """Waits until the members share the partitions and each has the group's epoch.

    Two things that Kafka too says to a classic member stop aiokafka (docs/spec/client-pitfalls.md,
    item 22): a JoinGroup that waits while the group becomes a consumer group, and an epoch that is
    behind when the group becomes a classic one.
    """
    wait_shared([member for member in crew.consumers if member.is_open], partitions, MOVE_S)
    group = crew.group
    deadline = time.monotonic() + MOVE_S
    while (state := listing(cluster, group).state) != ConsumerGroupState.STABLE:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{group}: {state}, not stable in {MOVE_S} s")
        time.sleep(0.05)


@pytest.mark.parametrize("library", LIBRARIES)
def test_members_join_and_leave(library: str, cluster: Cluster, crew: Crew) -> None:
    topic = cluster.create_topic(6)
    everything = partitions_of(topic, 6)
    settings = {"topics": [topic], "protocol": "consumer"}
    first = crew.open(library, "first", **settings)
    wait_shared([first], everything)
    assert group_type(cluster, crew.group) == ConsumerGroupType.CONSUMER
    alone = len(first.events)
    second = crew.open(library, "second", **settings)
    wait_shared([first, second], everything)
    assert all(event.assignment >= first.assignment for event in first.events[alone:])
    third = crew.open(library, "third", **settings)
    wait_shared([first, second, third], everything)
    first.close()
    wait_shared([second, third], everything)
    assert no_two_owners([first, second, third])


@pytest.mark.parametrize("library", LIBRARIES)
def test_what_a_killed_member_had_is_taken_over(
    library: str, cluster: Cluster, crew: Crew, programs: Programs
) -> None:
    topic = cluster.create_topic(6)
    everything = partitions_of(topic, 6)
    settings = {"topics": [topic], "protocol": "consumer"}
    survivor = crew.open(library, "survivor", **settings)
    victim = crew.open(library, "victim", program=programs.another(library), **settings)
    wait_shared([survivor, victim], everything)
    victim.program.kill()
    wait_shared([survivor], everything)


@pytest.mark.parametrize("library", STATIC)
def test_a_static_member_restarts_without_a_rebalance(
    library: str, cluster: Cluster, crew: Crew
) -> None:
    topic = cluster.create_topic(6)
    everything = partitions_of(topic, 6)
    settings = {"topics": [topic], "protocol": "consumer"}
    first = crew.open(library, "first", instance="one", **settings)
    second = crew.open(library, "second", instance="two", **settings)
    wait_shared([first, second], everything)
    before = list(first.events)
    share = second.assignment
    second.close()
    again = crew.open(library, "again", instance="two", **settings)
    wait_shared([first, again], everything)
    assert again.assignment == share
    assert first.events == before


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_pattern_takes_in_a_new_topic(library: str, cluster: Cluster, crew: Crew) -> None:
    prefix = f"{crew.group}-pattern"
    first = cluster.create_topic(2, prefix)
    settings = {"pattern": f"^{prefix}-.*", "protocol": "consumer"}
    consumer = crew.open(library, "only", **settings)
    wait_shared([consumer], partitions_of(first, 2))
    second = cluster.create_topic(3, prefix)
    wait_shared([consumer], partitions_of(first, 2) | partitions_of(second, 3), LOOK_S)


@pytest.mark.crash
@pytest.mark.parametrize("library", LIBRARIES)
def test_commits_are_resumed_and_outlive_the_coordinator(
    library: str, mortal_cluster: Cluster, new_crew: Callable[[Cluster], Crew]
) -> None:
    crew = new_crew(mortal_cluster)
    topic = mortal_cluster.create_topic(6, records=50)
    everything = partitions_of(topic, 6)
    offsets = {partition: 10 + partition[1] for partition in everything}
    settings = {"topics": [topic], "protocol": "consumer"}
    members = [crew.open(library, name, **settings) for name in ("first", "second")]
    wait_shared(members, everything)
    commit_shares(members, offsets)

    mortal_cluster.server.restart()
    assert committed_by(members[0], everything) == offsets
    offsets = {partition: offset + 10 for partition, offset in offsets.items()}
    commit_until_taken(members, offsets)

    third = crew.open(library, "third", **settings)
    wait_shared([*members, third], everything)
    assert third.started(third.assignment) == {p: offsets[p] for p in third.assignment}


def test_a_group_of_five_libraries_moves_there_and_back(
    cluster: Cluster, crew: Crew, programs: Programs
) -> None:
    """One member after the other, rolling; the two that have no consumer protocol stay."""
    if lacking := [name for name in LIBRARIES if not programs.is_available(name)]:
        pytest.skip(f"not here: {lacking}")
    topic = cluster.create_topic(10)
    everything = partitions_of(topic, 10)
    members = {
        library: crew.open(library, library, topics=[topic])
        for library in (*LIBRARIES, *STAYING_CLASSIC)
    }
    wait_settled(cluster, crew, everything)
    begun_at = time.monotonic()
    assert group_type(cluster, crew.group) == ConsumerGroupType.CLASSIC

    for protocol in ("consumer", "classic"):
        for library in LIBRARIES:
            members[library].close()
            wait_settled(cluster, crew, everything)
            members[library] = crew.open(library, library, topics=[topic], protocol=protocol)
            wait_settled(cluster, crew, everything)
            is_back = protocol == "classic" and library == LIBRARIES[-1]
            expected = ConsumerGroupType.CLASSIC if is_back else ConsumerGroupType.CONSUMER
            assert group_type(cluster, crew.group) == expected

    assert all(consumer.failure is None for consumer in crew.consumers)
    assert no_two_owners(crew.consumers)
    gaps = ownerless(crew.consumers, begun_at)
    assert gaps.keys() == everything
    assert max(gaps.values()) < OWNERLESS_S, gaps


Changes = list[tuple[float, str, bool]]


def changes_of(consumers: list[ClientConsumer]) -> dict[Partition, Changes]:
    """When each partition was taken and given up, in order: time, by whom, whether taken."""
    changes: dict[Partition, Changes] = {}
    for consumer in consumers:
        owned: frozenset[Partition] = frozenset()
        for event in consumer.events:
            for partition in event.assignment ^ owned:
                taken = partition in event.assignment
                changes.setdefault(partition, []).append((event.heard_at, consumer.name, taken))
            owned = event.assignment
    return {partition: sorted(of) for partition, of in changes.items()}


def no_two_owners(consumers: list[ClientConsumer]) -> bool:
    """Whether each partition was given up by one before another took it."""
    for changes in changes_of(consumers).values():
        given_up = {}
        taken = {}
        for at, name, is_taken in changes:
            (taken if is_taken else given_up).setdefault(name, []).append(at)
        spans = [
            (begin, end, name)
            for name, begins in taken.items()
            for begin, end in zip(begins, [*given_up.get(name, []), float("inf")], strict=False)
        ]
        spans.sort()
        for (_, end, _), (begin, _, _) in itertools.pairwise(spans):
            if begin < end - HEARD_LATE_S:
                return False
    return True


def ownerless(consumers: list[ClientConsumer], since: float) -> dict[Partition, float]:
    """The longest time in seconds, from `since` on, in which nobody had a partition."""
    longest = {}
    for partition, changes in changes_of(consumers).items():
        owners: set[str] = set()
        longest[partition] = 0.0
        free_since = since
        for at, name, is_taken in changes:
            if not owners and at > since:
                longest[partition] = max(longest[partition], at - max(free_since, since))
            owners = owners | {name} if is_taken else owners - {name}
            free_since = at
    return longest
