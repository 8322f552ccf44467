"""The fixtures of the client scenarios; they live in a module that other tests import too."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator

import pytest
from support.several import SEVERAL

from clients.fixtures import cluster, crew, mortal_cluster, new_crew, programs

__all__ = ["cluster", "crew", "mortal_cluster", "new_crew", "programs"]

# Of a test that takes a second or three: before its groups are there, and while they are used.
_STRIKE_S = (0.2, 3.0)


@pytest.fixture(autouse=True)
def _a_node_is_killed_in_the_middle(request: pytest.FixtureRequest) -> Iterator[None]:
    """Where there are three; a test that kills its server itself kills all of them."""
    is_several = request.config.getoption("--server") in SEVERAL
    if not is_several or "mortal_cluster" in request.fixturenames:
        yield
        return
    server = request.getfixturevalue("cluster").server
    wait = random.Random(request.node.name).uniform(*_STRIKE_S)
    is_over = threading.Event()
    failures: list[Exception] = []

    def strike() -> None:
        try:
            if not is_over.wait(wait):
                server.strike()
                server.recover()
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=strike, daemon=True)
    thread.start()
    yield
    is_over.set()
    thread.join()
    assert failures == []
