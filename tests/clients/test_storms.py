"""Groups that are left alone for a while after each rebalance, with clients of every library."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.cluster import Cluster
from support.server import PykcoordServer

from clients.fixtures import LANGUAGES, Crew, Programs
from clients.test_membership import partitions_of, wait_shared

pytestmark = pytest.mark.client

INTERVAL_S = 5.0
# Of a session: long, so that it shows whether members that left are waited for until it ends.
SESSION_S = 120


@pytest.fixture
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    if request.config.getoption("--server") != "pykcoord":
        pytest.skip("no other coordinator holds newcomers")
    settings = {"group.rebalance.min.interval.ms": str(int(INTERVAL_S * 1000))}
    with PykcoordServer(tmp_path / "data", settings=settings).start() as server:
        yield Cluster(server)


def test_newcomers_wait_and_members_that_left_are_missed_later(
    cluster: Cluster, programs: Programs, new_crew: Callable[[Cluster], Crew]
) -> None:
    libraries = [library for library in LANGUAGES if programs.is_available(library)]
    topic = cluster.create_topic(6)
    everything = partitions_of(topic, 6)
    settings = {
        "topics": [topic],
        "session_timeout_ms": SESSION_S * 1000,
        "rebalance_timeout_ms": SESSION_S * 1000,
    }
    crews = {library: new_crew(cluster) for library in libraries}

    begun_s = time.monotonic()
    first = {library: crews[library].open(library, "first", **settings) for library in libraries}
    for one in first.values():
        wait_shared([one], everything)
    second = {library: crews[library].open(library, "second", **settings) for library in libraries}
    for library in libraries:
        wait_shared([first[library], second[library]], everything)
    assert time.monotonic() - begun_s >= INTERVAL_S

    left_s = time.monotonic()
    for one in first.values():
        one.close()
    for one in second.values():
        wait_shared([one], everything)
    # The generation that ends by it began before they left.
    assert time.monotonic() - left_s < SESSION_S
