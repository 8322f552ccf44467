"""Watchers of scripted clusters, and what they come to know."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from support.scripted_broker import OFFSETS, ScriptedCluster

from pykcoord.watch import Watcher, WatchSettings

WAIT_S = 60.0


def settings(bootstrap: str, **more: str) -> WatchSettings:
    """Quick ones, without a self-check unless `watch_check_interval_ms` says otherwise."""
    properties = {
        "bootstrap.servers": bootstrap,
        "metadata.max.age.ms": "500",
        "watch.check.interval.ms": "0",
        "watch.sync.interval.ms": "100",
        "watch.end.offsets.interval.ms": "100",
    }
    given = {name.replace("_", "."): value for name, value in more.items()}
    return WatchSettings.of({**properties, **given})


@contextlib.asynccontextmanager
async def watching(
    cluster: ScriptedCluster, path: Path | None, **more: str
) -> AsyncIterator[Watcher]:
    """A watcher that runs; what ends it is raised at the end of the block."""
    watcher = await Watcher.open(settings(cluster.bootstrap, **more), path)
    task = asyncio.create_task(watcher.run())
    try:
        yield watcher
        if task.done():
            task.result()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await watcher.close()


async def until(condition: Callable[[], bool]) -> None:
    """Waits for what no event tells of."""
    async with asyncio.timeout(WAIT_S):
        while not condition():
            await asyncio.sleep(0.01)


def committed(watcher: Watcher) -> dict[tuple[str, str, int], int]:
    """All offsets that the watcher knows."""
    found = watcher.source.offsets()
    return {(of.group_id, of.topic, of.partition): of.offset for of in found}


def new_cluster(brokers: int = 1, partitions: int = 1) -> ScriptedCluster:
    """With `__consumer_offsets`, and a topic `orders` of two partitions."""
    cluster = ScriptedCluster(brokers)
    cluster.add_topic(OFFSETS, partitions)
    cluster.add_topic("orders", 2)
    return cluster
