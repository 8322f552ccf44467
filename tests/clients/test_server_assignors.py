"""Server assignors beyond Kafka's, named by clients over the wire: the coordinator's, and one of
one's own in Python."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient
from support.cluster import Cluster
from support.server import PykcoordServer

from clients.driver import WAIT_S, ClientConsumer
from clients.fixtures import Crew
from clients.test_consumer_protocol import SETTINGS
from clients.test_coordinator_assigns import moved, owners_of
from clients.test_membership import partitions_of

pytestmark = pytest.mark.client

# Those that can name a server assignor; franz-go takes the server's default.
LIBRARIES = ("confluent", "java")
# By partition of the topic `lagging`; nothing is committed there.
LAGS = [900, 300, 300, 300, 0, 0]
OWN = """
import pykcoord


class OddAndEven(pykcoord.Assignor):
    \"\"\"Odd partitions to the last member, the others to the first.\"\"\"

    name = "odd-and-even"

    def assign(self, topics, members):
        if len(members) == 3:
            raise RuntimeError("three are too many")
        given = {member: [] for member in members}
        for topic, count in topics.items():
            for number in range(count):
                given[(max if number % 2 else min)(given)].append((topic, number))
        return given
"""


@pytest.fixture(scope="module")
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    if request.config.getoption("--server") != "pykcoord":
        pytest.skip("no other coordinator has these")
    directory = tmp_path_factory.mktemp("server-assignors")
    (directory / "odd_and_even.py").write_text(OWN)
    assignors = "uniform,sticky,weighted,lag-aware,odd_and_even:OddAndEven"
    settings = {
        **SETTINGS,
        "group.consumer.assignors": assignors,
        "group.assignment.capacities": "*-big-*:3",
    }
    ends = directory / "ends.txt"
    ends.write_text("".join(f"lagging {number} {end}\n" for number, end in enumerate(LAGS)))
    server = PykcoordServer(
        directory / "data",
        topics={"lagging": len(LAGS)},
        settings=settings,
        arguments=["--end-offsets", str(ends)],
        environment={"PYTHONPATH": str(directory)},
    )
    with server.start():
        yield Cluster(server)


def assignor_of(cluster: Cluster, group: str) -> str:
    admin = AdminClient({"bootstrap.servers": cluster.address})
    return str(admin.describe_consumer_groups([group])[group].result(WAIT_S).partition_assignor)


class Joining:
    """Members of one group that join one after the other, each when those before it have their
    shares."""

    def __init__(self, crew: Crew, library: str, topic: str, count: int, assignor: str) -> None:
        self.crew, self.library = crew, library
        self.settings = {"topics": [topic], "protocol": "consumer", "server_assignor": assignor}
        self.everything = sorted(partitions_of(topic, count))
        self.members: list[ClientConsumer] = []

    def join(self, name: str, *sizes: int) -> ClientConsumer:
        """One more; until every partition has one owner and each member so many. On the way there
        every partition may have one owner as well: members give up theirs one after the other."""
        joined = self.crew.open(self.library, name, **self.settings)
        self.members.append(joined)
        what = f"shares of {sizes} with {name}"
        for member in self.members:
            member.wait_assignment(lambda _: self._is_shared(sizes), what)
        return joined

    def _is_shared(self, sizes: tuple[int, ...]) -> bool:
        shares = [member.assignment for member in self.members]
        owned = sorted(partition for share in shares for partition in share)
        return tuple(map(len, shares)) == sizes and owned == self.everything


def numbers(member: ClientConsumer) -> set[int]:
    return {number for _, number in member.assignment}


@pytest.mark.parametrize("library", LIBRARIES)
def test_sticky_moves_only_what_it_must(library: str, cluster: Cluster, crew: Crew) -> None:
    joining = Joining(crew, library, cluster.create_topic(12), 12, "sticky")
    stayed = [joining.join("first", 12), joining.join("second", 6, 6)]
    before = owners_of(stayed)
    third = joining.join("third", 4, 4, 4)
    assert moved(before, owners_of(joining.members), stayed) == third.assignment
    assert assignor_of(cluster, crew.group) == "sticky"


@pytest.mark.parametrize("library", LIBRARIES)
def test_weighted_goes_by_capacities(library: str, cluster: Cluster, crew: Crew) -> None:
    joining = Joining(crew, library, cluster.create_topic(8), 8, "weighted")
    joining.join("small", 8)
    joining.join("big", 2, 6)
    assert assignor_of(cluster, crew.group) == "weighted"


@pytest.mark.parametrize("library", LIBRARIES)
def test_lag_aware_spreads_what_is_to_be_read(library: str, cluster: Cluster, crew: Crew) -> None:
    joining = Joining(crew, library, "lagging", len(LAGS), "lag-aware")
    members = [joining.join("first", 6), joining.join("second", 3, 3)]
    assert [sum(LAGS[number] for number in numbers(member)) for member in members] == [900, 900]
    assert assignor_of(cluster, crew.group) == "lag-aware"


@pytest.mark.parametrize("library", LIBRARIES)
def test_one_of_ones_own(library: str, cluster: Cluster, crew: Crew) -> None:
    joining = Joining(crew, library, cluster.create_topic(6), 6, "odd-and-even")
    members = [joining.join("first", 6), joining.join("second", 3, 3)]
    assert sorted(map(numbers, members), key=min) == [{0, 2, 4}, {1, 3, 5}]
    assert assignor_of(cluster, crew.group) == "odd-and-even"
    joining.join("third", 2, 2, 2)  # with three it raises, and `uniform` takes its place
