"""The console of watched groups: pages are what the log tells, live, and over a restart."""

from __future__ import annotations

import asyncio
import contextlib
import json
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from explain.acts import SECOND, settled
from prometheus_client.parser import text_string_to_metric_families
from support.console import Console
from support.scripted_broker import OFFSETS, ScriptedCluster

from pykcoord._machine import _topic_id
from pykcoord.cli.explain import command as explain_command
from pykcoord.clock import Clock
from pykcoord.events import Event
from pykcoord.shard import record_batch
from pykcoord.virtual import World
from pykcoord.watch import Watcher
from pykcoord.watch.console import WatchReading, WatchSource
from pykcoord.watch.lags import keep_lags, kept_lags
from pykcoord.watch.metrics import WatchMetrics
from pykcoord.web import WebOptions
from pykcoord.web.listener import serve_console

from .conftest import WAIT_S, settings

pytestmark = pytest.mark.timeout(180)


def cluster_of(world: World) -> ScriptedCluster:
    cluster = ScriptedCluster(1)
    cluster.add_topic(OFFSETS, 1)
    cluster.add_topic("orders", 6)
    made = cluster.topics["orders"][1]
    cluster.topics["orders"] = uuid.UUID(bytes=bytes(_topic_id("orders"))), made
    for number in range(6):
        cluster.partition("orders", number).start = 100
    put(cluster, world)
    return cluster


def put(cluster: ScriptedCluster, world: World) -> None:
    """What the log of the world has more."""
    partition = cluster.partition(OFFSETS, 0)
    partition.batches += [record_batch(one) for one in world.log[len(partition.batches) :]]
    cluster.notify()


@contextlib.asynccontextmanager
async def shown(cluster: ScriptedCluster, path: Path | None) -> AsyncIterator[Console]:
    watcher = await Watcher.open(settings(cluster.bootstrap), path, tells_events=True)
    task = asyncio.create_task(watcher.run())
    source = WatchSource(watcher, WatchMetrics(watcher))
    listen = WebOptions(("127.0.0.1", 0))
    serving = serve_console(source, listen, Clock().now_ms, WatchReading(source))
    try:
        served = await asyncio.to_thread(serving.__enter__)
        yield Console(served.url)
    finally:
        source.end()
        await asyncio.to_thread(serving.__exit__, None, None, None)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await watcher.close()


def lag_owners(console: Console) -> set[str]:
    """The clients that have a series of lag."""
    text = console.ask("GET", "/metrics")[2].decode()
    families = {of.name: of.samples for of in text_string_to_metric_families(text)}
    return {one.labels["client_id"] for one in families["pykcoord_member_lag"]}


async def page(console: Console, wanted: Callable[[Any], bool]) -> Any:
    """The group's page, once it is so."""
    async with asyncio.timeout(WAIT_S):
        while not wanted(found := await asyncio.to_thread(console.get, "/api/group", id="g")):
            await asyncio.sleep(0.05)
    return found


def test_pages_tell_what_the_log_tells_live_and_after_a_restart(tmp_path: Path) -> None:
    world = World({"orders": 6})
    members = settled(world, 3)
    for member in members:
        member.commit()
    world.run(SECOND)

    async def story() -> None:
        cluster = cluster_of(world)
        async with cluster.running():
            async with shown(cluster, tmp_path / "copy") as console:
                groups = await asyncio.to_thread(console.get, "/api/groups")
                (row,) = groups["groups"]
                assert (row["id"], row["state"], row["members"]) == ("g", "Stable", 3)
                assert (await asyncio.to_thread(console.get, "/api/session"))["is_watched"]
                before = await page(console, lambda of: of["why"]["rebalances"])
                assert before["generation"] == 2
                owners = await asyncio.to_thread(lag_owners, console)
                assert owners == {"app-1", "app-2", "app-3"}
                members[2].leave()
                world.run(10 * SECOND)
                put(cluster, world)
                after = await page(
                    console, lambda of: of["generation"] == 3 and len(of["members"]) == 2
                )
                assert after["why"]["told_by"] == "log"
                assert "app-3" in after["why"]["rebalances"][-1]["text"]
                assert "the log does not tell" in after["why"]["rebalances"][-1]["text"]
                assert {one["client_id"] for one in after["members"]} == {"app-1", "app-2"}
                assert [one["what"] for one in after["spans"]][-1] == "stable"
                owners = [one["owners"] for one in after["offsets"]]
                assert all(len(of) == 1 for of in owners), owners
                cluster_page = await asyncio.to_thread(console.get, "/api/cluster")
                assert cluster_page["figures"]["members"] == 2
                assert cluster_page["controller"] is None
                metrics = (await asyncio.to_thread(console.ask, "GET", "/metrics"))[2]
                assert b"pykcoord_watch_members 2.0" in metrics
                assert await asyncio.to_thread(lag_owners, console) == {"app-1", "app-2"}
            async with shown(cluster, tmp_path / "copy") as console:
                again = await page(console, lambda of: of["generation"] == 3)
                assert again["why"] == after["why"]
                assert again["story"] == after["story"]
                assert again["events_since_ms"] == after["events_since_ms"]
        offline = CliRunner().invoke(explain_command, ["g", str(tmp_path / "copy"), "--json"])
        assert offline.exit_code == 0, offline.output
        report = json.loads(offline.output)
        assert report["told_by"] == "log"
        lines = [one["text"] for one in report["story"] if "rebalance" in one]
        assert lines == [one["text"] for one in after["why"]["rebalances"]]

    asyncio.run(story())


def test_without_a_right_to_the_log_pages_have_no_history(tmp_path: Path) -> None:
    async def story() -> None:
        cluster = ScriptedCluster(1)
        cluster.add_topic("orders", 2)
        async with cluster.running(), shown(cluster, None) as console:
            groups = await asyncio.to_thread(console.get, "/api/groups")
            assert groups["groups"] == []
            assert (await asyncio.to_thread(console.ask, "GET", "/readyz"))[0] == 200

    asyncio.run(story())


def test_a_partition_that_falls_behind_while_its_owner_commits_nothing(tmp_path: Path) -> None:
    world = World({"orders": 6})
    members = settled(world, 3)
    for member in members:
        member.commit()
    world.run(SECOND)
    _, late = members[1].partitions[0]

    async def story() -> None:
        cluster = cluster_of(world)
        path = tmp_path / "copy"
        async with cluster.running():
            watcher = await Watcher.open(settings(cluster.bootstrap), path, tells_events=True)
            try:
                now_ms = Clock().now_ms()
                cluster.partition("orders", late).start = 5_000
                await watcher.refresh_ends()
                assert watcher.telling is not None
                watcher.look_at_lags(now_ms + 50_000)
                assert kept_lags(path) == []  # not long enough yet
                watcher.look_at_lags(now_ms + 70_000)
                watcher.look_at_lags(now_ms + 90_000)  # once, until it has doubled
                (event,) = kept_lags(path)
                assert (event.kind, event.detail) == ("lag_grows", f"orders-{late}")
                assert (event.silent_ms or 0) >= 60_000
                assert event.member is not None
                with watcher.telling.events() as told:
                    watcher.telling.end()
                    assert event in [one async for one in told]
                history = watcher.lag_history.of("g")["orders", late]
                assert history[-1] == (now_ms + 90_000, event.count)
                assert history[0][1] < history[-1][1]
            finally:
                await watcher.close()
        report = CliRunner().invoke(explain_command, ["g", str(path), "--json"])
        (pattern,) = json.loads(report.output)["patterns"]
        assert pattern["pattern"] == "lag_without_commits"
        owner = event.member.client_id
        assert f"Partition orders-{late} falls behind, and its owner, {owner}" in pattern["text"]
        assert json.loads(report.output)["told_by"] == "log"

    asyncio.run(story())


def test_what_is_kept_of_lag_is_bounded_and_survives_damage(tmp_path: Path) -> None:
    many = [Event("lag_grows", f"g{n}", 3, None, None, n, "x" * 200, n, 60_000) for n in range(900)]
    for _ in range(20):
        keep_lags(tmp_path, many)
    found = kept_lags(tmp_path)
    assert found[-900:] == many
    assert sum(of.stat().st_size for of in tmp_path.glob("lags*")) < 3 << 20
    with open(tmp_path / "lags.jsonl", "ab") as file:
        file.write(b'{"kind": "lag_gr')
    assert kept_lags(tmp_path) == found
    keep_lags(tmp_path, many[:1])
    assert kept_lags(tmp_path)[-1] == many[0]
