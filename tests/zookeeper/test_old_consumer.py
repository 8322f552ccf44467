"""Members of ours and of the real 0.8.2.2 consumer in one group agree in every state.

After each step the owners in the znodes, what the assignors make of the registrations, and what
each member believes must be the same.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from kazoo.exceptions import NoNodeError

from pykcoord.cli.lab.jars import LabError, library_directory
from pykcoord.zookeeper import (
    Registration,
    ZooKeeperMember,
    assign,
    partitions_of,
    threads_by_topic,
)

from .conftest import World, until
from .old_consumer import OldConsumers
from .test_member import _expire

pytestmark = pytest.mark.java
STEPS = 12


class Story(NamedTuple):
    """Subscriptions of the first of ours, and of two real members; new and growing topics."""

    strategy: str
    ours: dict[str, object]
    first: str
    second: str
    new: str
    growing: str


STORIES = {
    "range": Story(
        "range", {"topics": {"A": 1, "B": 2, "N": 1}}, "static A=2,N=1", "static B=1,A=1", "N", "A"
    ),
    "roundrobin": Story(
        "roundrobin",
        {"topics": {"A": 2, "B": 2, "N": 2}},
        "static A=1,B=1,N=1",
        "static A=3,B=3,N=3",
        "N",
        "B",
    ),
    "white lists": Story(
        "range",
        {"whitelist": r"w\..*, A", "streams": 2},
        r"white [A-Z&&[^B]]|w\Q.\Eorders 1",
        r"black (?!w).* 1",
        "w.new",
        "w.orders",
    ),
}


@pytest.fixture(scope="module")
def jars() -> Path:
    try:
        return library_directory("kafka082")
    except LabError as error:
        pytest.skip(str(error))


@pytest.fixture
def jvms(jars: Path, world: World, tmp_path: Path) -> Iterator[tuple[OldConsumers, OldConsumers]]:
    world.topic("w.orders", 3)
    folders = tmp_path / "first", tmp_path / "second"
    for folder in folders:
        folder.mkdir()
    with (
        OldConsumers(world.connect, folders[0]) as one,
        OldConsumers(world.connect, folders[1]) as two,
    ):
        yield one, two


class Group:
    """The members at present, by name, and how many states agreed."""

    def __init__(self, world: World, story: Story, jvms: tuple[OldConsumers, OldConsumers]) -> None:
        self.world = world
        self.story = story
        self.ours: dict[str, ZooKeeperMember] = {}
        self.real: dict[str, OldConsumers] = {}
        self.agreed = 0
        self._jvms = jvms

    def join(self, name: str, number: int) -> None:
        """A real member, in the JVM of that number."""
        subscription = self.story.second if number else self.story.first
        jvm = self._jvms[number]
        answer = jvm.ask("open", name, "billing", self.story.strategy, subscription)
        assert answer == f"opened {name}"
        self.real[name] = jvm

    def join_ours(self, name: str) -> None:
        self.ours[name] = ZooKeeperMember(
            self.world.connect, "billing", strategy=self.story.strategy, consumer_id=name,
            session_timeout_ms=3_000, rebalance_backoff_ms=300, **self.story.ours,  # type: ignore[arg-type]
        )  # fmt: skip

    def agrees(self, silent: str = "") -> None:
        """Wait until all agree. `silent`: a member whose process was stopped."""
        differing: list[str] = []

        def agreed() -> bool:
            differing[:] = [self._difference(silent)]
            return differing == [""]

        try:
            until(agreed, 60)
        except AssertionError:
            raise AssertionError(f"state {self.agreed + 1}: {differing}") from None
        self.agreed += 1

    def _difference(self, silent: str) -> str:
        try:
            expected = self._computed()
        except NoNodeError:
            return "not there yet, or about to go"
        if self.world.owners("billing") != expected:
            return "znodes"
        for name, member in self.ours.items():
            believed = {f"{one.topic}-{one.partition}" for one in member.assignment}
            if believed != _of(expected, name):
                return name
        for name, jvm in self.real.items():
            if name != silent and jvm.owned(name) != _of(expected, name):
                return name
        registered = set(self.world.client.get_children("/consumers/billing/ids"))
        members = {*self.ours, *self.real} - {silent}
        return "" if registered == {f"billing_{name}" for name in members} else "registrations"

    def _computed(self) -> dict[str, str]:
        client, ids = self.world.client, "/consumers/billing/ids"
        members = {
            name: Registration.decode(client.get(f"{ids}/{name}")[0], f"{ids}/{name}")
            for name in client.get_children(ids)
            if client.exists(f"{ids}/{name}")
        }
        topics = {
            topic: partitions_of(client.get(f"/brokers/topics/{topic}")[0], topic)
            for topic in client.get_children("/brokers/topics")
        }
        owners = assign(self.story.strategy, threads_by_topic(members, topics), topics)
        return {f"{one.topic}-{one.partition}": thread for one, thread in owners.items()}


def _of(owners: dict[str, str], name: str) -> set[str]:
    return {one for one, thread in owners.items() if thread.rpartition("-")[0] == f"billing_{name}"}


@pytest.mark.timeout(170)
@pytest.mark.parametrize("begins", ["ours", "real"])
@pytest.mark.parametrize("name", STORIES)
def test_a_mixed_group_agrees_in_every_state(
    name: str,
    begins: str,
    world: World,
    jvms: tuple[OldConsumers, OldConsumers],
    pytestconfig: pytest.Config,
) -> None:
    is_first = (name, begins) == ("white lists", "ours")
    if not is_first and not pytestconfig.getoption("--zookeeper-all"):
        pytest.skip("only with --zookeeper-all")
    group = Group(world, STORIES[name], jvms)
    try:
        _play(group, jvms[1], begins)
    finally:
        for member in group.ours.values():
            member.close()
    assert group.agreed == STEPS


def _play(group: Group, second: OldConsumers, begins: str) -> None:
    joins = [lambda: group.join_ours("p1"), lambda: group.join("r1", 0)]
    for join in joins if begins == "ours" else reversed(joins):
        join()
        group.agrees()  # first and second join
    group.join("r2", 1)
    group.agrees()  # and a third
    group.real["r1"].ask("close", "r1")
    del group.real["r1"]
    group.agrees()  # a real member leaves
    group.join_ours("p2")
    group.agrees()  # a second of ours
    group.join("r1", 0)
    group.agrees()  # and the real one returns
    second.signal(signal.SIGSTOP)
    group.agrees(silent="r2")  # a real session expires
    second.signal(signal.SIGCONT)
    group.agrees()  # and begins anew
    _expire(group.ours["p1"])
    group.agrees()  # a session of ours expires, and begins anew
    second.signal(signal.SIGKILL)
    del group.real["r2"]
    group.agrees()  # a crash
    group.world.topic(group.story.new, 4)
    group.agrees()  # a new topic
    group.world.topic(group.story.growing, 9)
    group.ours.pop("p1").close()
    group.agrees()  # more partitions, and one of ours leaves
