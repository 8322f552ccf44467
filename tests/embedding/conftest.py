"""Coordinators in this process, with few shards and members that notice quickly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pykcoord import Config, Coordinator, Member

CONFIG = Config(
    group_initial_rebalance_delay_ms=0,
    group_min_session_timeout_ms=100,
    offsets_topic_num_partitions=4,
)
Join = Callable[..., Member]


@pytest.fixture
def config() -> Config:
    return CONFIG


@pytest.fixture
def coordinator(tmp_path: Path, config: Config) -> Iterator[Coordinator]:
    with Coordinator(tmp_path / "data", topics={"orders": 6}, config=config) as coordinator:
        yield coordinator


@pytest.fixture
def join(coordinator: Coordinator) -> Iterator[Join]:
    """`coordinator.join` with a fast heartbeat; its members are closed at the end."""
    members: list[Member] = []

    def join(group_id: str = "billing", topics: Any = ("orders",), **options: Any) -> Member:
        options.setdefault("heartbeat_interval_ms", 20)
        member = coordinator.join(group_id, topics, **options)
        members.append(member)
        return member

    yield join
    for member in members:
        member.close()
