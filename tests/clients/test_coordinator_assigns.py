"""Groups that the coordinator assigns itself, with unmodified clients of every library."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.cluster import Cluster
from support.server import PykcoordServer

from clients.driver import ClientConsumer, Partition
from clients.fixtures import LANGUAGES, Crew, Programs
from clients.test_membership import COOPERATIVE, SHORT_SESSION_MS, partitions_of, wait_shared

pytestmark = pytest.mark.client

LIBRARIES = tuple(LANGUAGES)
SETTINGS = {
    "group.assignment": "coordinator",
    "group.assignment.groups": "weighted-*:weighted,*:sticky",
    "group.assignment.capacities": "*-big-*:3",
}
Owners = dict[Partition, str]


@pytest.fixture(scope="module")
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """A server that assigns, for all tests of this file."""
    if request.config.getoption("--server") != "pykcoord":
        pytest.skip("no other coordinator assigns for classic clients")
    directory = tmp_path_factory.mktemp("assigning") / "data"
    with PykcoordServer(directory, settings=SETTINGS).start() as server:
        yield Cluster(server)


@pytest.fixture
def mortal_cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    """One of the test's own, to be killed."""
    if request.config.getoption("--server") != "pykcoord":
        pytest.skip("no other coordinator assigns for classic clients")
    with PykcoordServer(tmp_path / "data", settings=SETTINGS).start() as server:
        yield Cluster(server)


def owners_of(consumers: list[ClientConsumer]) -> Owners:
    return {partition: one.name for one in consumers for partition in one.assignment}


def moved(before: Owners, after: Owners, stayed: list[ClientConsumer]) -> set[Partition]:
    """Partitions that moved from one member to another without need."""
    names = {consumer.name for consumer in stayed}
    return {row for row, owner in before.items() if owner in names and after[row] != owner}


def test_one_group_of_every_library(cluster: Cluster, crew: Crew, programs: Programs) -> None:
    """A new member takes no more than its share, and the partitions of one that left are shared
    out, with all libraries in one group."""
    topic = cluster.create_topic(12)
    everything = partitions_of(topic, 12)
    libraries = [library for library in LIBRARIES if programs.is_available(library)]
    members = [crew.open(library, library, topics=[topic]) for library in libraries]
    wait_shared(members, everything)
    before = owners_of(members)

    late = crew.open(
        "kafka_python", "late", program=programs.another("kafka_python"), topics=[topic],
        session_timeout_ms=SHORT_SESSION_MS,
    )  # fmt: skip
    wait_shared([*members, late], everything)
    after = owners_of([*members, late])
    assert moved(before, after, members) == late.assignment
    assert len(late.assignment) == 12 // (len(members) + 1)

    late.program.kill()
    wait_shared(members, everything)
    assert not moved(after, owners_of(members), members)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_join_and_a_death_move_what_they_must(
    library: str, cluster: Cluster, crew: Crew, programs: Programs
) -> None:
    topic = cluster.create_topic(8)
    everything = partitions_of(topic, 8)
    first = crew.open(library, "first", topics=[topic])
    wait_shared([first], everything)
    second = crew.open(
        library, "second", program=programs.another(library), topics=[topic],
        session_timeout_ms=SHORT_SESSION_MS,
    )  # fmt: skip
    wait_shared([first, second], everything)
    before = owners_of([first, second])
    third = crew.open(library, "third", topics=[topic])
    wait_shared([first, second, third], everything)
    after = owners_of([first, second, third])
    assert moved(before, after, [first, second]) == third.assignment

    second.program.kill()
    wait_shared([first, third], everything)
    assert not moved(after, owners_of([first, third]), [first, third])


@pytest.mark.parametrize("library", COOPERATIVE)
def test_cooperative_members_keep_what_does_not_move(
    library: str, cluster: Cluster, crew: Crew
) -> None:
    topic = cluster.create_topic(6)
    everything = partitions_of(topic, 6)
    settings = {"topics": [topic], "assignor": "cooperative-sticky"}
    first = crew.open(library, "first", **settings)
    wait_shared([first], everything)
    alone = len(first.events)

    second = crew.open(library, "second", **settings)
    wait_shared([first, second], everything)

    kept = first.assignment
    revoked = [event.partitions for event in first.events[alone:] if event.kind == "revoked"]
    assert frozenset().union(*revoked) == everything - kept == second.assignment
    assert all(event.assignment >= kept for event in first.events[alone:])
    assert not [event for event in first.events if event.kind == "lost"]


def test_a_cooperative_group_of_every_library_that_can(
    cluster: Cluster, crew: Crew, programs: Programs
) -> None:
    topic = cluster.create_topic(12)
    everything = partitions_of(topic, 12)
    libraries = [library for library in COOPERATIVE if programs.is_available(library)]
    settings = {"topics": [topic], "assignor": "cooperative-sticky"}
    members = [crew.open(library, library, **settings) for library in libraries]
    wait_shared(members, everything)
    members[0].close()
    wait_shared(members[1:], everything)


@pytest.mark.parametrize("library", LIBRARIES)
def test_added_partitions_are_assigned_though_no_client_watches(
    library: str, cluster: Cluster, crew: Crew
) -> None:
    """Their own metadata stays as it was for a minute, three times as long as a test waits."""
    topic = cluster.create_topic(2)
    consumers = [crew.open(library, name, topics=[topic]) for name in ("first", "second")]
    wait_shared(consumers, partitions_of(topic, 2))

    cluster.raise_partitions(topic, 6)
    wait_shared(consumers, partitions_of(topic, 6))


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_weighted_member_gets_its_share(library: str, cluster: Cluster, crew: Crew) -> None:
    crew.group = crew.group.replace("group-", "weighted-")
    topic = cluster.create_topic(8)
    big = crew.open(library, "big", topics=[topic])
    small = crew.open(library, "small", topics=[topic])
    small.wait_assignment(lambda owned: len(owned) == 2, "a quarter")
    big.wait_assignment(lambda owned: len(owned) == 6, "three quarters")
    assert big.assignment | small.assignment == partitions_of(topic, 8)


@pytest.mark.parametrize("library", ["confluent", "kafka_python", "java", "franz-go"])
def test_a_static_member_comes_back_to_what_it_had(
    library: str, cluster: Cluster, crew: Crew, programs: Programs
) -> None:
    topic = cluster.create_topic(5)
    settings = {"topics": [topic], "instance": "one"}
    program = programs.another(library)
    first = crew.open(library, "first", program=program, **settings)
    other = crew.open(library, "other", topics=[topic], instance="two")
    wait_shared([first, other], partitions_of(topic, 5))
    had, seen = first.assignment, len(other.events)

    program.kill()
    again = crew.open(library, "again", **settings)
    again.wait_assignment(lambda owned: owned == had, "what it had")
    assert len(other.events) == seen


@pytest.mark.crash
@pytest.mark.parametrize("library", ["confluent", "java"])
def test_who_has_what_outlives_the_coordinator(
    library: str, mortal_cluster: Cluster, new_crew: Callable[[Cluster], Crew]
) -> None:
    crew = new_crew(mortal_cluster)
    topic = mortal_cluster.create_topic(9)
    everything = partitions_of(topic, 9)
    members = [crew.open(library, name, topics=[topic]) for name in ("first", "second")]
    wait_shared(members, everything)
    before = owners_of(members)

    mortal_cluster.server.restart()
    third = crew.open(library, "third", topics=[topic])
    wait_shared([*members, third], everything)
    assert moved(before, owners_of([*members, third]), members) == third.assignment
