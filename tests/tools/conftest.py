"""A server, a group on it, and the tool that asks about groups."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from clients.fixtures import cluster, crew, new_crew, programs
from support.cluster import Cluster
from support.kafka import jars
from support.kafka.tools import tool

__all__ = ["Tool", "cluster", "crew", "new_crew", "programs"]

Tool = Callable[..., str]


@pytest.fixture
def consumer_groups(cluster: Cluster) -> Tool:
    """Runs kafka-consumer-groups and returns what it prints."""
    if (reason := jars.missing_tool_chain()) is not None:
        pytest.skip(reason)
    return lambda *arguments: tool(
        "consumer-groups", "--bootstrap-server", cluster.address, *arguments
    )
