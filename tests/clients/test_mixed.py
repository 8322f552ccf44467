"""Java's consumers and the drop-in assignors of `pykcoord.clients` in one group, over TCP.

The assignment of the group is compared, byte by byte, with that of the Java class for the
subscriptions that the coordinator received. The first member to join leads; each client leads once.
"""

from __future__ import annotations

import contextlib
import itertools
import socket
import time
from pathlib import Path
from typing import Any

import pytest
from support import kio_client
from support.cluster import Cluster
from support.pages import examples_of

import pykcoord
from clients.driver import WAIT_S, ClientConsumer, Partition
from clients.fixtures import Crew, Programs
from pykcoord.assignors import STRATEGIES, decode_subscription, encode_assignment

pytestmark = pytest.mark.client

PAGE = "docs/assignors.md"
LIBRARIES = ("java", "kafka_python", "aiokafka")
# aiokafka revokes everything before it joins, so it has nothing to keep.
KEEPERS = {"sticky": LIBRARIES, "cooperative-sticky": ("java", "kafka_python")}
SHORT_SESSION_MS = 4_000

Owned = dict[str, frozenset[Partition]]


@pytest.mark.parametrize("leader", LIBRARIES)
@pytest.mark.parametrize("strategy", STRATEGIES[:4])
def test_a_mixed_group_settles_as_java_would(
    strategy: str, leader: str, cluster: Cluster, crew: Crew, programs: Programs
) -> None:
    topics = {cluster.create_topic(partitions): partitions for partitions in (7, 5)}
    group = Mixed(crew, cluster, strategy, topics)
    group.join(leader)
    group.settled()
    for library in LIBRARIES:
        if library != leader:
            group.join(library)
    before = group.settled()

    victim = programs.another("kafka_python")
    group.join("kafka_python", program=victim, session_timeout_ms=SHORT_SESSION_MS)
    joined = group.settled()
    assert len(joined) == 4
    for name in group.keepers(before):
        assert joined[name] <= before[name], "only the newcomer gains"

    victim.kill()
    left = group.settled()
    assert len(left) == 3
    for name in group.keepers(left):
        assert left[name] >= joined[name], "nobody loses by a death"


@pytest.mark.parametrize("leader", LIBRARIES)
@pytest.mark.parametrize("strategy", STRATEGIES[:4])
def test_members_of_other_topics_and_static_ones(
    strategy: str, leader: str, cluster: Cluster, crew: Crew
) -> None:
    """Subscriptions differ, and the static members come first, by their ids and not by age."""
    topics = {cluster.create_topic(partitions): partitions for partitions in (8, 4, 3)}
    first, second, third = topics
    group = Mixed(crew, cluster, strategy, topics)
    wanted = itertools.cycle([[first, second, third], [first, second], [first]])
    group.join(leader, topics=list(topics))
    group.settled()
    for number, library in enumerate(LIBRARIES):
        group.join(library, topics=next(wanted), instance=f"static-{9 - number}")
    group.settled()
    # The leader last: when it leaves the others join again, and members that are gone are waited
    # for.
    for consumer in reversed(group.consumers):
        consumer.close()


def test_the_random_assignor_of_the_docs(cluster: Cluster, crew: Crew, tmp_path: Path) -> None:
    """The assignor of the docs' page, in a group of both clients; neither library knows it by
    itself."""
    (code,) = (code for code, _ in examples_of(PAGE) if "class RandomAssignor" in code)
    (tmp_path / "mine.py").write_text(code.partition("\nassignment = ")[0])
    topic = cluster.create_topic(60)
    everything = {(topic, partition) for partition in range(60)}
    group = Mixed(crew, cluster, "random", {topic: 60}, f"{tmp_path / 'mine.py'}:RandomAssignor")
    seen = []
    for library in ("aiokafka", "kafka_python", "aiokafka"):
        group.join(library)
        owned = group.wait_settled()
        assert sum(map(len, owned.values())) == 60
        assert frozenset().union(*owned.values()) == everything
        seen.append(owned)
    assert all(seen[-1].values()), "one in 2^34"
    first = group.consumers[0].name
    assert not seen[-1][first] <= seen[-2][first], "drawn anew; one in 2^18"


class Mixed:
    """Members of several libraries that use the same assignor, and their assignments."""

    def __init__(
        self, crew: Crew, cluster: Cluster, strategy: str, topics: dict[str, int], own: str = ""
    ) -> None:
        self.crew = crew
        self.cluster = cluster
        self.strategy = strategy
        self.topics = topics
        self.own = own
        self.consumers: list[ClientConsumer] = []

    def join(self, library: str, **settings: Any) -> None:
        assignor = self.own or f"pykcoord:{self.strategy}"
        if library == "java":
            assignor = self.strategy
        settings = {"topics": list(self.topics), "assignor": assignor, **settings}
        self.consumers.append(self.crew.open(library, library, **settings))

    def keepers(self, owned: Owned) -> list[str]:
        """The members that must not lose a partition without need."""
        return [
            consumer.name
            for consumer in self.consumers
            if consumer.name in owned
            and consumer.program.library in KEEPERS.get(self.strategy, ())
        ]  # fmt: skip

    def settled(self) -> Owned:
        """The partitions of each member; asserts that they are those that Java's class computes."""
        owned = self.wait_settled()
        deadline = time.monotonic() + WAIT_S
        while (group := self._described()) is None:
            assert time.monotonic() < deadline, "no node describes the group"
            time.sleep(0.05)
        members = group.members
        subscriptions = {
            member.member_id: decode_subscription(member.member_metadata, member.group_instance_id)
            for member in members
        }
        # The recorded cases (tests/vectors) hold this oracle to the results of Java's classes.
        expected = pykcoord.assign(self.strategy, self.topics, subscriptions, compat="java")
        for member in members:
            assert member.member_assignment == encode_assignment(expected[member.member_id])
        return owned

    def wait_settled(self) -> Owned:
        """Waits until the coordinator and all living members agree, and everything is owned."""
        deadline = time.monotonic() + WAIT_S
        while (owned := self._agreed()) is None:
            for consumer in self.consumers:
                assert consumer.failure is None, consumer.failure
            assert time.monotonic() < deadline, self._described()
            time.sleep(0.05)
        return owned

    def _agreed(self) -> Owned | None:
        living = {c.name: c.assignment for c in self.consumers if c.program.is_alive}
        if (group := self._described()) is None:
            return None
        given = {
            member.client_id: _partitions(member.member_assignment) for member in group.members
        }
        every = sum(self.topics.values())
        is_agreed = (
            group.group_state == "Stable"
            and group.protocol_data == self.strategy
            and given == living
            and sum(map(len, given.values())) == every
        )
        return living if is_agreed else None

    def _described(self) -> Any:
        """As its coordinator says, of several nodes; None if that is away."""
        for address in self.cluster.address.split(","):
            with contextlib.suppress(OSError):
                found = self._described_at(address)
                if found.error_code == 0:
                    return found
        return None

    def _described_at(self, address: str) -> Any:
        fields = {"groups": [self.crew.group], "include_authorized_operations": False}
        host, _, port = address.rpartition(":")
        with socket.create_connection((host, int(port)), WAIT_S) as connection:
            connection.sendall(kio_client.encode(15, 5, **fields))
            with connection.makefile("rb") as answers:
                size = int.from_bytes(answers.read(4), "big")
                return kio_client.decode(15, 5, answers.read(size)).groups[0]


def _partitions(assignment: bytes) -> frozenset[Partition]:
    decoded = pykcoord._native.decode_assignment(assignment) if assignment else (3, [], None)
    assert decoded is not None
    return frozenset((topic, number) for topic, numbers in decoded[1] for number in numbers)
