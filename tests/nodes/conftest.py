"""Nodes on this machine, each test's own, and the client programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from clients.fixtures import programs
from support.nodes import Nodes

__all__ = ["new_nodes", "programs"]


@pytest.fixture
def new_nodes(tmp_path: Path) -> Iterator[Callable[..., Nodes]]:
    """Makes nodes of a directory, which are not started yet."""
    made: list[Nodes] = []

    def make(settings: Mapping[str, str] | None = None) -> Nodes:
        made.append(Nodes(tmp_path / "data", {"orders": 6}, settings))
        return made[-1]

    yield make
    for nodes in made:
        nodes.close()
