"""The server is killed with SIGKILL and started again under the clients' feet."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import pytest
from support.cluster import Cluster

from clients.driver import WAIT_S, ClientConsumer, ClientError, Partition
from clients.fixtures import LANGUAGES, Crew
from clients.test_membership import partitions_of, wait_shared

pytestmark = [pytest.mark.client, pytest.mark.crash]

Offsets = dict[Partition, int | None]

LIBRARIES = tuple(LANGUAGES)
# kafkajs comes back as a new member, and then the old one has to expire.
TIMEOUTS = {"session_timeout_ms": 5_000, "rebalance_timeout_ms": 5_000}
# For so long aiokafka, which takes an error for no offsets (pitfall 25), is not believed that a
# group has none.
UNBELIEVED_S = 5.0


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_group_outlives_the_coordinator(
    library: str, mortal_cluster: Cluster, new_crew: Callable[[Cluster], Crew]
) -> None:
    crew = new_crew(mortal_cluster)
    topic = mortal_cluster.create_topic(6, records=30)
    everything = partitions_of(topic, 6)
    offsets = {partition: 10 + partition[1] for partition in everything}
    settings = {"topics": [topic], **TIMEOUTS}
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


def commit_shares(members: list[ClientConsumer], offsets: dict[Partition, int]) -> None:
    for member in members:
        member.commit({partition: offsets[partition] for partition in member.assignment})


def committed_by(member: ClientConsumer, partitions: Iterable[Partition]) -> Offsets:
    """What the group's coordinator has, as this member is told once a library that hands a broken
    connection to its user has another."""
    asked_at = time.monotonic()
    deadline = asked_at + WAIT_S
    takes_errors_for_none = member.program.library == "aiokafka"
    while True:
        try:
            told = member.committed(partitions)
            has_any = any(offset is not None for offset in told.values())
            if has_any or not takes_errors_for_none or time.monotonic() > asked_at + UNBELIEVED_S:
                return told
        except ClientError as error:
            if time.monotonic() > deadline:
                raise TimeoutError(f"no offsets were told: {error}") from error
        time.sleep(0.1)


def commit_until_taken(members: list[ClientConsumer], offsets: dict[Partition, int]) -> None:
    """A library may drop its partitions for a while, or hand a broken connection to its user."""
    deadline = time.monotonic() + WAIT_S
    while True:
        wait_shared(members, frozenset(offsets))
        try:
            commit_shares(members, offsets)
            if (found := members[0].committed(offsets)) == offsets:
                return
            problem: object = f"{found} instead of {offsets}"
        except ClientError as error:
            problem = error
        if time.monotonic() > deadline:
            raise TimeoutError(f"no commit was taken: {problem}")
        time.sleep(0.1)
