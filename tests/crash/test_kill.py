"""SIGKILL at a random moment, with 2,000 connections that join, commit and heartbeat."""

from __future__ import annotations

import asyncio
import random
import resource
from pathlib import Path

import pytest
from support.cluster import new_server
from support.kafka.broker import KafkaBroker
from support.server import PykcoordServer

from crash.load import TOPIC, Load, verify

pytestmark = pytest.mark.crash

CONNECTIONS = 2_000
SPARE_FILES = 200
# The server may be killed while members still join, or well after.
EARLIEST_S, LATEST_S = 0.05, 2.5
TIMEOUT_S = 60


@pytest.fixture
def connections() -> int:
    """As many as the machine's file limit has room for; the server inherits the limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = CONNECTIONS + SPARE_FILES
    soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    current, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if current < soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return min(CONNECTIONS, soft - SPARE_FILES)


async def kill_under_load(server: PykcoordServer | KafkaBroker, load: Load, delay_s: float) -> None:
    await load.connect("127.0.0.1", server.port)
    await asyncio.sleep(delay_s)  # the moment is the point: no event is waited for
    await asyncio.to_thread(server.kill)
    await asyncio.wait_for(load.wait_lost(), TIMEOUT_S)


@pytest.mark.timeout(0)
def test_nothing_acknowledged_is_lost(
    request: pytest.FixtureRequest, tmp_path: Path, connections: int
) -> None:
    rounds = request.config.getoption("--crash-rounds")
    seed = random.randrange(2**32)
    moments = random.Random(seed)
    loads: list[Load] = []
    server = new_server(request, tmp_path / "data", topics={TOPIC: 12})
    with server.start():
        for number in range(rounds):
            load = Load(f"round-{number}", connections, moments.randrange(2**32))
            loads.append(load)
            delay_s = moments.uniform(EARLIEST_S, LATEST_S)
            asyncio.run(kill_under_load(server, load, delay_s))
            server.start()
            findings = asyncio.run(verify(load, "127.0.0.1", server.port))
            assert findings == [], f"seed {seed}, round {number}, killed after {delay_s:.3f} s"
        for load in loads:  # what was there after one crash is there after all of them
            assert asyncio.run(verify(load, "127.0.0.1", server.port)) == [], f"seed {seed}"
    assert sum(load.acknowledged for load in loads) > connections, "there was no load"
