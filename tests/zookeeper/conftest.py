"""A real ZooKeeper for the tests that need one, started from Maven's jars; skipped without."""

from __future__ import annotations

import contextlib
import itertools
import json
import time
from collections.abc import Callable, Iterator

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError, SessionExpiredError
from support import orphans

from pykcoord.cli.lab.jars import LabError, library_directory, missing_tool_chain
from pykcoord.cli.lab.servers import ZooKeeper
from pykcoord.zookeeper import ZooKeeperMember

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    """One server, for all tests of this process."""
    if (missing := missing_tool_chain()) is not None:
        pytest.skip(missing)
    try:
        library_directory("zookeeper")
    except LabError as error:
        pytest.skip(str(error))
    directory = tmp_path_factory.mktemp("zookeeper")
    with ZooKeeper(directory, on_start=orphans.started, on_end=orphans.ended) as server:
        yield server


class World:
    """A chroot of its own in the server, with a broker registered and topics."""

    def __init__(self, connect: str) -> None:
        self.connect = connect
        self.client = KazooClient(connect, timeout=60)
        self.client.start()
        self.client.ensure_path("/brokers/topics")
        self.client.create("/brokers/ids/1", b'{"host":"127.0.0.1","port":1}', makepath=True)

    def topic(self, name: str, partitions: int) -> None:
        """Make a topic, or let it grow."""
        numbers = {str(number): [1] for number in range(partitions)}
        data = json.dumps({"version": 1, "partitions": numbers}).encode()
        path = f"/brokers/topics/{name}"
        if self.client.exists(path):
            self.client.set(path, data)
        else:
            self.client.create(path, data)

    def text(self, path: str) -> str:
        return self.client.get(path)[0].decode()

    def owners(self, group: str) -> dict[str, str]:
        try:
            return self._owners(group)
        except SessionExpiredError:  # the server was away for long: the next call has another
            return {}

    def _owners(self, group: str) -> dict[str, str]:
        found = {}
        if not self.client.exists(f"/consumers/{group}/owners"):
            return {}
        for topic in self.client.get_children(f"/consumers/{group}/owners"):
            path = f"/consumers/{group}/owners/{topic}"
            for partition in self.client.get_children(path):
                with contextlib.suppress(NoNodeError):
                    found[f"{topic}-{partition}"] = self.text(f"{path}/{partition}")
        return found


@pytest.fixture
def world(zookeeper: ZooKeeper) -> Iterator[World]:
    chroot = f"/test{next(_numbers)}"
    client = KazooClient(zookeeper.connect)
    client.start()
    client.ensure_path(chroot)
    client.stop()
    client.close()
    world = World(zookeeper.connect + chroot)
    world.topic("A", 6)
    world.topic("B", 4)
    yield world
    world.client.stop()
    world.client.close()


@pytest.fixture
def member(world: World) -> Iterator[Callable[..., ZooKeeperMember]]:
    """Makes members of the group `billing`; they are closed at the end."""
    made: list[ZooKeeperMember] = []

    def make(consumer_id: str, topics: object = None, **settings: object) -> ZooKeeperMember:
        settings = {"session_timeout_ms": 6_000, "rebalance_backoff_ms": 100, **settings}
        one = ZooKeeperMember(
            world.connect, "billing", topics, consumer_id=consumer_id, **settings  # type: ignore[arg-type]
        )  # fmt: skip
        made.append(one)
        return one

    yield make
    for one in made:
        one.close()


def until(
    condition: Callable[[], object],
    seconds: float = 60.0,
    seen: Callable[[], object] = lambda: "",
) -> None:
    """Wait for what has no event to be awaited: the state of the server."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"did not come about {seen()}"
        time.sleep(0.02)
