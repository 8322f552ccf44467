"""What happened to a group of a cluster is told whichever node led it, and by each node."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition
from support.members import GROUPS, SHARDS, WAIT_S, Members, spread

from pykcoord.cli import commands
from pykcoord.log.events import EVENTS_TOPIC
from pykcoord.log.shared import open_store
from pykcoord.log.shared.events import EventObjects, flushes

pytestmark = [pytest.mark.client, pytest.mark.crash]


@pytest.fixture
def members(tmp_path: Path) -> Iterator[Members]:
    started = Members(tmp_path, 2, {"group.initial.rebalance.delay.ms": 0})
    try:
        yield started.start_all()
    finally:
        started.close()


def until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def joined(members: Members, group: str, name: str) -> Consumer:
    consumer = Consumer({
        "bootstrap.servers": members.bootstrap, "group.id": group, "client.id": name,
        "log_level": 0, "error_cb": lambda error: None,
    })  # fmt: skip
    consumer.subscribe(["orders"])
    return consumer


def kept(members: Members, shard: int) -> list[dict[str, Any]]:
    objects = EventObjects(open_store(str(members.folder)), 0.0)
    records = objects.of(shard, lambda log: [*log.records()])
    return [json.loads(record.value) for record in records]


def story(*arguments: str) -> str:
    told = CliRunner().invoke(commands, ["explain", *arguments])
    assert told.exception is None or isinstance(told.exception, SystemExit), told.output
    return told.output


def test_what_happened_is_told_after_the_node_that_led_the_group_was_killed(
    members: Members,
) -> None:
    led = spread(members).node(2)
    assert led is not None
    shard = min(led.shards)
    group = GROUPS[shard]
    first, second = joined(members, group, "app-1"), joined(members, group, "app-2")

    def share() -> list[int]:
        first.poll(0.1)
        second.poll(0.1)
        return [len(first.assignment()), len(second.assignment())]

    def has_kept(kind: str) -> bool:
        first.poll(0.1)
        return any(one["kind"] == kind and one["group_id"] == group for one in kept(members, shard))

    try:
        until(lambda: share() == [3, 3], "both have partitions")
        until(lambda: share() and has_kept("group_stable"), "node 2 has kept it")
        members.kill(2)
        until(lambda: share() and commits(second), "node 1 serves the group")
        second.close()
        until(lambda: has_kept("member_gone"), "node 1 has kept it")
        until(lambda: (first.poll(0.1), len(first.assignment()))[1] == 6, "the first has all")
    finally:
        first.close()
    served = f"127.0.0.1:{members.ports[1]}"
    until(lambda: "the group is empty" in story(group, "--bootstrap-servers", served), "it is told")
    told = story(group, "--bootstrap-servers", served)
    assert told.count(" left and gave no reason") == 2
    assert f"Group {group}: " in told
    assert "joined" in told
    assert story(group, str(members.folder)) == told
    assert f"\n{group} " in story(str(members.folder))
    # As any client reads it.
    reader = Consumer({
        "bootstrap.servers": f"127.0.0.1:{members.ports[1]}", "group.id": "reader",
        "enable.auto.commit": False, "log_level": 0,
    })  # fmt: skip
    try:
        reader.assign([TopicPartition(EVENTS_TOPIC, shard, OFFSET_BEGINNING)])
        expected, read = kept(members, shard), list[dict[str, Any]]()
        epochs = set()

        def all_read() -> bool:
            if (message := reader.poll(0.2)) is not None and message.error() is None:
                offset, value = message.offset(), message.value()
                assert offset is not None
                assert value is not None
                epochs.add(offset >> 32)
                read.append(json.loads(value))
            return len(read) >= len(expected)

        until(all_read, "a client reads all")
        assert read[: len(expected)] == expected
        assert len(epochs) == 2, "each leader has offsets of its own"
    finally:
        reader.close()
    members.end(1)
    # A node that ends leaves no flushes; those of the node that was killed stay for a while.
    left = {flush.incarnation for flush in flushes(open_store(str(members.folder)))}
    assert len(left) <= 1
    assert shard < SHARDS


def commits(consumer: Consumer) -> bool:
    """Whether its coordinator takes a commit."""
    try:
        consumer.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
    except KafkaException:
        return False
    return True
