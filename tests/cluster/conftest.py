"""The nodes of a cluster over one folder: three, unless `NODES` of a module says how many, and
`Members`, unless its `MEMBERS` is another class."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.members import Members, probing
from support.one_node import Manners
from support.probe import Probe


@pytest.fixture
def members(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Members]:
    new = getattr(request.module, "MEMBERS", Members)
    made: Members = new(tmp_path, getattr(request.module, "NODES", 3))
    try:
        yield made.start_all()
    finally:
        made.close()


@pytest.fixture
def probes(members: Members) -> Iterator[list[Probe]]:
    with probing(members) as made:
        yield made


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def store(root: Path) -> Manners:
    return Manners(root)


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], list[str]]]:
    with caplog.at_level(logging.INFO, "pykcoord.cluster"):
        yield lambda: [record.getMessage() for record in caplog.records]
