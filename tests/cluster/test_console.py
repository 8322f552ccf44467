"""The console of a node of a cluster: groups of all nodes, and what happened to them."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from support.console import Console
from support.members import GROUPS, WAIT_S, Members, spread
from support.ports import free_port

pytestmark = [pytest.mark.client, pytest.mark.crash]


@pytest.fixture
def members(tmp_path: Path) -> Iterator[Members]:
    made = Members(tmp_path, 2, {"group.initial.rebalance.delay.ms": 0})
    try:
        yield made
    finally:
        made.close()


def test_each_group_is_shown_whichever_node_leads_it_and_after_a_kill(
    members: Members, tmp_path: Path
) -> None:
    web = f"127.0.0.1:{free_port()}"
    ends = tmp_path / "ends.txt"
    ends.write_text("orders 2 50\n")
    members.start(1, "--web", web, "--end-offsets", str(ends))
    members.start(2)
    members.wait_known()
    led = {one.node_id: sorted(one.shards) for one in spread(members).nodes}
    console = Console(f"http://{web}/")
    groups = {node: GROUPS[shards[0]] for node, shards in led.items()}
    consumers = {node: joined(members, group) for node, group in groups.items()}
    try:
        for node, consumer in consumers.items():
            members.wait(
                lambda consumer=consumer: (consumer.poll(0.1), len(consumer.assignment()) == 6)[1],
                f"a member at node {node}",
            )
            consumer.commit(offsets=[TopicPartition("orders", 2, 40 + node)], asynchronous=False)
        members.wait(lambda: listed(console) == {*groups.values()}, "both groups are listed")
        assert console.ask("GET", "/readyz")[0] == 200
        cluster = console.get("/api/cluster")
        assert cluster["shards"] == [
            next(node for node, shards in led.items() if shard in shards)
            for shard in range(len(cluster["shards"]))
        ]
        assert cluster["controller"] == 1, "it began the cluster"
        assert "shards_away" not in cluster["figures"]
        for node, group in groups.items():
            page = told(console, group)
            assert page["node"] == node
            assert [len(of["owners"]) for of in page["offsets"]] == [1] * 6
            (offset,) = [of["offset"] for of in page["offsets"] if of["offset"] is not None]
            assert offset == 40 + node
            assert page["lag"] == 10 - node
        # The node that leads a group tells how far it is behind.
        members.wait(lambda: lag(console, groups[1]) == 9.0, "the lag is told")
        # What another node hears is told as it happens.
        members.wait(
            lambda: page_of(console, groups[2]).get("events_are_all"), "the other node is heard"
        )
        stream = console.stream(id=groups[2])
        ticks = stream.ticks()
        assert next(ticks)["changed"] == []
        later = Consumer({
            "bootstrap.servers": members.bootstrap, "group.id": groups[2], "client.id": "later",
            "log_level": 0, "error_cb": lambda error: None,
        })  # fmt: skip
        later.subscribe(["orders"])
        consumers[3] = later
        changed: list[str] = []
        members.wait(
            lambda: (consumers[2].poll(0.1), later.poll(0.1),
                     changed.extend(next(ticks)["changed"]), changed)[3],
            "the stream tells of it",
        )  # fmt: skip
        stream.close()
        assert changed == [groups[2]]
        members.wait(
            lambda: (consumers[2].poll(0.1), later.poll(0.1), "later" in str(
                page_of(console, groups[2]).get("story")
            ))[2],
            "the page tells of it",
        )  # fmt: skip
        consumers.pop(3).close()
        members.kill(2)
        members.wait(
            lambda: (consumers[2].poll(0.1), page_of(console, groups[2]).get("node") == 1)[1],
            "the page says that node 1 leads it",
        )
        assert "joined" in told(console, groups[2])["why"]["rebalances"][0]["text"]
    finally:
        for consumer in consumers.values():
            consumer.close()
    assert members.end(1) == 0


def joined(members: Members, group: str) -> Consumer:
    consumer = Consumer({
        "bootstrap.servers": members.bootstrap, "group.id": group, "client.id": f"of-{group}",
        "enable.auto.commit": False, "log_level": 0, "error_cb": lambda error: None,
    })  # fmt: skip
    consumer.subscribe(["orders"])
    return consumer


def listed(console: Console) -> set[str]:
    return {one["id"] for one in console.get("/api/groups")["groups"]}


def lag(console: Console, group: str) -> float | None:
    text = console.ask("GET", "/metrics")[2].decode()
    found = re.search(rf'^pykcoord_group_lag{{group="{group}"}} (\S+)$', text, re.MULTILINE)
    return float(found[1]) if found else None


def page_of(console: Console, group: str) -> Any:
    """Empty while its coordinator cannot be asked."""
    status, _, body = console.ask("GET", "/api/group", {"id": group})
    return json.loads(body) if status == 200 else {}


def told(console: Console, group: str) -> Any:
    """The page, once what happened is on it: the node that heard of it keeps it within a second or
    two."""
    deadline = time.monotonic() + WAIT_S
    while not (page := page_of(console, group)) or not page["why"]["rebalances"]:
        assert time.monotonic() < deadline, page
        time.sleep(0.1)
    return page
