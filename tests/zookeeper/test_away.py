"""ZooKeeper goes away under its members: for a while, and for good."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support import orphans

from pykcoord.cli.lab.jars import LabError, library_directory
from pykcoord.cli.lab.servers import ZooKeeper
from pykcoord.zookeeper import ZooKeeperError, ZooKeeperMember

from .conftest import World, until

pytestmark = pytest.mark.java


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ZooKeeper]:
    try:
        library_directory("zookeeper")
    except LabError as error:
        pytest.skip(str(error))
    server = ZooKeeper(tmp_path / "zookeeper", on_start=orphans.started, on_end=orphans.ended)
    with server:
        yield server


@pytest.mark.parametrize("safe", [False, True])
def test_members_survive_that_zookeeper_is_away(server: ZooKeeper, safe: bool) -> None:
    world = World(server.connect)
    world.topic("A", 4)
    settings = {"session_timeout_ms": 10_000, "rebalance_backoff_ms": 100, "safe": safe}
    one = ZooKeeperMember(world.connect, "billing", ["A"], consumer_id="c1", **settings)  # type: ignore[arg-type]
    one.wait()
    server.stop()
    if safe:
        until(lambda: not one.assignment)  # it drops what it cannot be sure of
        with pytest.raises(ZooKeeperError, match="/consumers/billing/offsets/A/0: no"):
            one.commit({("A", 0): 5})
    else:
        with pytest.raises(TimeoutError, match="/consumers/billing/offsets/A/0: no"):
            one.commit({("A", 0): 5}, timeout_seconds=0.5)
        assert len(one.assignment) == 4, "it goes on believing"
    server.start()
    until(lambda: len(one.assignment) == 4 and len(world.owners("billing")) == 4, 60)
    one.commit({("A", 0): 6})
    assert one.committed() == {("A", 0): 6}
    server.stop()
    one.close(timeout_seconds=30)  # for good: a member ends all the same
    assert one.assignment == frozenset()
    world.client.stop()
    world.client.close()


def test_a_join_waits_for_zookeeper_in_the_middle(server: ZooKeeper) -> None:
    world = World(server.connect)
    world.topic("A", 4)
    one = ZooKeeperMember(world.connect, "billing", ["A"], session_timeout_ms=10_000)
    one.wait()
    server.pause(0)
    two = ZooKeeperMember(
        world.connect, "billing", ["A"], session_timeout_ms=10_000, connection_timeout_ms=60_000
    )
    with pytest.raises(TimeoutError, match=r"a session with 127\.0\.0\.1"):
        two.wait(0.3)
    server.resume(0)
    until(lambda: (len(one.assignment), len(two.assignment)) == (2, 2), 60)
    for member in (one, two):
        member.close()
    world.client.stop()
    world.client.close()
