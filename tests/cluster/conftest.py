"""The nodes of a cluster over one folder: three, unless `NODES` of a module says how many."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.members import Members, probing
from support.probe import Probe


@pytest.fixture
def members(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Members]:
    made = Members(tmp_path, getattr(request.module, "NODES", 3))
    try:
        yield made.start_all()
    finally:
        made.close()


@pytest.fixture
def probes(members: Members) -> Iterator[list[Probe]]:
    with probing(members) as made:
        yield made
