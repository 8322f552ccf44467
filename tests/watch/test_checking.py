"""The self-check, and what is asked of coordinators where the log may not be read."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path

import pytest
from support.scripted_broker import OFFSETS

from pykcoord.kafka import Cluster, NotAllowedError
from pykcoord.watch import WatchedGroup, WatchedMember, WatchedOffset, Watcher
from pykcoord.watch.comparing import differences
from pykcoord.watch.polling import Poller

from .conftest import committed, new_cluster, settings, until, watching
from .offsets_log import commit

pytestmark = pytest.mark.timeout(120)

_MEMBER = WatchedMember("m-1", None, "client", "/h", 3, {"orders": [0, 1]}, ["orders"])
_GROUP = WatchedGroup("billing", "consumer", "Stable", 3, "uniform", [_MEMBER])
_OFFSET = WatchedOffset("billing", "orders", 0, 5, -1, "", 1000, bytes(16), False)


def test_the_same_is_the_same_whatever_its_order() -> None:
    other = WatchedMember("m-2", None, "client", "/h", 3, {}, [])
    one = _GROUP._replace(members=[_MEMBER, other])
    two = _GROUP._replace(members=[other._replace(owned={"orders": []}), _MEMBER])
    assert differences(one, two, [_OFFSET], [_OFFSET._replace(commit_timestamp=-1)]) == []


@pytest.mark.parametrize(
    ("described", "answered", "found"),
    [
        (_GROUP._replace(state="Empty"), [_OFFSET], "state: Stable in the log, Empty described"),
        (_GROUP._replace(epoch=4), [_OFFSET], "epoch: 3 in the log, 4 described"),
        (_GROUP._replace(protocol="range"), [_OFFSET], "protocol: 'uniform' in the log"),
        (_GROUP._replace(members=[]), [_OFFSET], "member m-1: in the log only"),
        (
            _GROUP._replace(members=[_MEMBER._replace(owned={"orders": [0]})]),
            [_OFFSET],
            "member m-1: ",
        ),
        (None, [_OFFSET], "its coordinator does not know it"),
        (_GROUP, [], "offset of orders-0: "),
        (_GROUP, [_OFFSET._replace(offset=6)], "offset of orders-0: "),
        (_GROUP, [_OFFSET, _OFFSET._replace(partition=1)], "offset of orders-1: None in the log"),
    ],
)
def test_each_difference_is_told(
    described: WatchedGroup | None, answered: list[WatchedOffset], found: str
) -> None:
    (told,) = differences(_GROUP, described, [_OFFSET], answered)
    assert found in told


def test_a_group_that_is_not_as_its_coordinator_says_is_counted_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story() -> None:
        cluster = new_cluster()
        cluster.groups = {"billing": "Empty", "wrong": "Empty"}
        cluster.group_offsets = {
            "billing": {("orders", 0): 5}, "wrong": {("orders", 0): 8}
        }  # fmt: skip
        async with cluster.running():
            commit(cluster.partition(OFFSETS, 0), "billing", 5)
            commit(cluster.partition(OFFSETS, 0), "wrong", 7)
            async with watching(cluster, None, watch_check_interval_ms="50") as watcher:
                assert watcher.checker is not None
                await until(lambda: watcher.checker.counts["different"] > 0)
                await until(lambda: watcher.checker.counts["equal"] > 0)

    with caplog.at_level(logging.WARNING):
        asyncio.run(story())
    assert "group 'wrong' is not as its coordinator says: offset of orders-0" in caplog.text
    assert "'billing'" not in caplog.text


@pytest.mark.parametrize("right", ["DESCRIBE", "READ"])
def test_without_the_right_to_read_coordinators_are_asked(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, right: str
) -> None:
    async def story() -> None:
        cluster = new_cluster(brokers=2)
        if right == "DESCRIBE":
            cluster.hidden[OFFSETS] = 29
        else:
            cluster.partition(OFFSETS, 0).error = 29
        cluster.groups = {"billing": "Empty"}
        cluster.group_offsets = {"billing": {("orders", 0): 5}}
        async with cluster.running():
            more = {"watch_poll_interval_ms": "100"}
            async with watching(cluster, tmp_path / "copy", **more) as watcher:
                assert watcher.mode == "poll"
                assert committed(watcher) == {("billing", "orders", 0): 5}
                cluster.group_offsets["billing"]["orders", 0] = 6
                await until(lambda: committed(watcher) == {("billing", "orders", 0): 6})
                cluster.groups = {}
                await until(lambda: committed(watcher) == {})

    with caplog.at_level(logging.WARNING):
        asyncio.run(story())
    assert f"lacks {right} on the topic {OFFSETS}: groups are asked" in caplog.text
    lines = (tmp_path / "copy" / "polled.jsonl").read_text().splitlines()
    told = [json.loads(line) for line in lines]
    assert [(one["is_there"], one["offsets"]) for one in told] == [
        (True, [["orders", 0, 5, ""]]), (True, [["orders", 0, 6, ""]]), (False, [])
    ]  # fmt: skip


def test_a_group_that_nobody_lists_is_gone_the_second_time() -> None:
    async def story() -> None:
        cluster = new_cluster(brokers=2)
        cluster.groups = {"billing": "Empty"}
        async with cluster.running():
            client = settings(cluster.bootstrap, metadata_max_age_ms="60000").client
            opened = await Cluster.open(client)
            poller = Poller(opened, lambda group_id: True)
            await poller.poll()
            cluster.groups = {}
            assert await poller.poll() == []
            assert [one.group_id for one in poller.groups()] == ["billing"]
            (gone,) = await poller.poll()
            assert (gone["group"], gone["is_there"]) == ("billing", False)
            assert poller.groups() == []
            # A broker that does not answer takes nothing away.
            cluster.groups = {"billing": "Empty"}
            await poller.poll()
            cluster.groups = {}
            await cluster.stop(2)
            assert await poller.poll() == []
            assert await poller.poll() == []
            assert poller.errors >= 1
            await opened.close()

    asyncio.run(story())


def test_a_right_that_is_lost_ends_the_watching_with_its_name() -> None:
    async def story() -> None:
        cluster = new_cluster()
        async with cluster.running():
            watcher = await Watcher.open(settings(cluster.bootstrap), None)
            running = asyncio.create_task(watcher.run())
            cluster.partition(OFFSETS, 0).error = 29
            cluster.notify()
            try:
                with pytest.raises(NotAllowedError, match=f"lacks READ on the topic {OFFSETS}"):
                    await asyncio.wait_for(running, 60)
            finally:
                await watcher.close()

    asyncio.run(story())
