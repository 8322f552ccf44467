"""Events of groups, for a host and in the lines of log: over the real node."""

from __future__ import annotations

import asyncio
import datetime
import json
import logging
import secrets
from pathlib import Path
from typing import Any

import pytest
from kio.schema.join_group.v3.request import JoinGroupRequest, JoinGroupRequestProtocol
from kio.schema.types import GroupId
from kio.static.primitive import i32Timedelta
from support.kio_client import ask, encode

from pykcoord._native import EventBatch, Node, merge_events, record_areas
from pykcoord.config import Config
from pykcoord.events import Event, EventMember, log_event, log_more_starts
from pykcoord.log.events import EventLog, Records
from pykcoord.protocol import encode_request
from pykcoord.session import anonymous

from .conftest import serving


def made() -> Node:
    config = Config(group_initial_rebalance_delay_ms=0)
    return Node(config.native(), 1, secrets.token_bytes(32))


def member_of(group_id: str, member_id: str = "", reason: str | None = None) -> dict[str, Any]:
    timeout = datetime.timedelta(seconds=30)
    return {
        "group_id": group_id, "session_timeout": timeout, "rebalance_timeout": timeout,
        "member_id": member_id, "group_instance_id": None, "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}], "reason": reason,
    }  # fmt: skip


async def joined(client: Any, member_id: str = "", reason: str | None = None) -> Any:
    """Join with JoinGroup v8, the first that has a reason."""
    response = await ask(client, 11, 8, **member_of("billing", member_id, reason))
    if response.error_code == 79:  # MEMBER_ID_REQUIRED
        return await joined(client, response.member_id, reason)
    return response


async def synced(client: Any, join: Any) -> None:
    await ask(
        client, 14, 3, group_id="billing", generation_id=join.generation_id,
        member_id=join.member_id, group_instance_id=None, assignments=[],
    )  # fmt: skip


async def heartbeat(client: Any, join: Any) -> int:
    response = await ask(
        client, 12, 3, group_id="billing", generation_id=join.generation_id,
        member_id=join.member_id, group_instance_id=None,
    )  # fmt: skip
    return response.error_code


async def left(client: Any, join: Any, reason: str) -> None:
    member = {"member_id": join.member_id, "group_instance_id": None, "reason": reason}
    await ask(client, 13, 5, group_id="billing", members=[member])


def test_a_host_that_asks_is_told_what_happens_to_groups_and_why(run):
    events: list[Event] = []

    async def main():
        async with serving(made()) as rig:
            rig.runtime.on_event = events.append
            rig.runtime.tell_events(True)
            client = await rig.connect()
            join = await joined(client, reason="starts")
            await synced(client, join)
            told = len(events)
            for _ in range(20):
                assert await heartbeat(client, join) == 0
            assert len(events) == told, "a heartbeat that is accepted makes no event"
            await left(client, join, "scaled in")
            return join.member_id

    member_id = run(main())
    kinds = [(event.kind, event.generation_id, event.cause, event.count) for event in events]
    assert kinds == [
        ("group_created", 0, None, None),
        ("member_joined", 0, None, None),
        ("rebalance_started", 0, "member_joined", None),
        ("join_phase_completed", 1, None, 1),
        ("group_stable", 1, None, 1),
        ("member_gone", 1, "left", None),
        ("rebalance_started", 1, "member_left", None),
        ("join_phase_completed", 2, None, 0),
    ]
    assert {event.group_id for event in events} == {"billing"}
    times = [event.timestamp_ms for event in events]
    assert times == sorted(times)
    assert times[0] > 0
    member = events[2].member
    assert events[1].member == member
    assert member == EventMember(member_id, None, member.client_id, "/127.0.0.1", "starts")
    assert events[5].member.reason == events[6].member.reason == "scaled in"
    assert events[3].detail == "range"


def test_a_host_that_does_not_ask_is_told_nothing(run, caplog):
    events: list[Event] = []

    async def main():
        async with serving(made()) as rig:
            rig.runtime.on_event = events.append
            client = await rig.connect()
            await synced(client, await joined(client))

    with caplog.at_level(logging.DEBUG, "pykcoord.groups"):
        run(main())
    assert events == []
    assert [record for record in caplog.records if record.name == "pykcoord.groups"] == []


@pytest.mark.parametrize("error", [ValueError, SystemExit, asyncio.CancelledError])
def test_an_observer_that_fails_harms_no_one(run, caplog, error: type[BaseException]):
    def fail(event: Event) -> None:
        raise error("of an observer")

    async def main():
        async with serving(made()) as rig:
            rig.runtime.on_event = fail
            rig.runtime.tell_events(True)
            client = await rig.connect()
            join = await joined(client)
            await synced(client, join)
            assert await heartbeat(client, join) == 0

    run(main())
    assert "of an observer" in caplog.text


def test_a_rebalance_is_one_line_with_its_cause_and_the_member_that_caused_it(caplog):
    member = EventMember("c-1", "i-1", "c", "/10.0.0.7", "the consumer is being closed")
    with caplog.at_level(logging.INFO, "pykcoord.groups"):
        log_event(Event("member_gone", "billing", 7, "left", member))  # debug
        log_event(Event("rebalance_started", "billing", 7, "member_left", member))
        log_event(Event("rebalance_started", "billing", 7, "topics_changed"))
    first, second = caplog.records
    assert first.levelname == "INFO"
    assert first.getMessage() == (
        "group billing, generation 7: rebalance, member_left: member c-1, instance i-1 "
        "(client c /10.0.0.7), because: the consumer is being closed"
    )
    fields = {
        "event": "rebalance",
        "group_id": "billing",
        "generation_id": 7,
        "cause": "member_left",
    }
    fields |= {"member_id": "c-1", "group_instance_id": "i-1", "client_id": "c"}
    fields |= {"client_host": "/10.0.0.7"}
    fields |= {"reason": "the consumer is being closed"}
    assert fields.items() <= first.__dict__.items()
    assert second.getMessage() == "group billing, generation 7: rebalance, topics_changed"


def test_every_other_event_is_a_line_at_debug(caplog):
    member = EventMember("c-1", None, "c", "/10.0.0.7", None)
    with caplog.at_level(logging.DEBUG, "pykcoord.groups"):
        log_event(Event("group_created", "g", 0))
        log_event(Event("join_phase_completed", "g", 1, count=2, detail="range"))
        log_event(Event("group_stable", "g", 1, count=2))
        log_event(Event("group_stable", "g", 1, count=1))
        log_event(Event("join_held", "g", 1, count=1))
        log_event(Event("member_gone", "g", 1, "session_expired", member))
        log_event(Event("group_deleted", "g", 2, "expired"))
    assert {record.levelname for record in caplog.records} == {"DEBUG"}
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == [
        "created",
        "the join phase is over, 2 members",
        "stable, 2 members",
        "stable, 1 member",
        "join held, 1 ms",
        "member gone, session_expired: member c-1 (client c /10.0.0.7)",
        "deleted, expired",
    ]


def begun(count: int, **told: Any) -> Any:
    """The turn that tells that so many groups began to rebalance."""
    node = made()
    node.loaded(0, 0, 0)
    node.record_events(True)
    node.tell_starts(told.get("starts", 0))
    node.tell_events(told.get("events", False))
    timeout = i32Timedelta.parse(datetime.timedelta(seconds=30))
    frames = []
    for number in range(count):
        join = JoinGroupRequest(
            group_id=GroupId(f"g-{number}"), session_timeout=timeout, rebalance_timeout=timeout,
            member_id="", protocol_type="consumer",
            protocols=(JoinGroupRequestProtocol(name="range", metadata=b""),),
        )  # fmt: skip
        frames.append((number + 1, anonymous("/127.0.0.1", "PLAINTEXT"), encode_request(join)))
    node.step(1_000, frames, [])
    return node.step(1_000, [], [(0, count)])  # a record for each group is durable


def test_of_many_rebalances_that_start_together_some_have_a_line_and_the_rest_are_counted(caplog):
    turn = begun(5, starts=2)
    told = [Event.of(row) for row in turn.events]
    assert [(event.kind, event.group_id) for event in told] == [
        ("rebalance_started", "g-0"),
        ("rebalance_started", "g-1"),
    ]
    assert turn.starts_left_out == 3
    for starts, events, left_out in ((5, 5, 0), (6, 5, 0), (0, 0, 0)):
        turn = begun(5, starts=starts)
        assert (len(turn.events), turn.starts_left_out) == (events, left_out)
    turn = begun(5, starts=2, events=True)
    assert turn.starts_left_out == 0
    assert sum(row[0] == "rebalance_started" for row in turn.events) == 5
    with caplog.at_level(logging.INFO, "pykcoord.groups"):
        log_more_starts(3)
    (line,) = caplog.records
    assert line.getMessage() == "rebalances of 3 more groups started at the same time"


def test_starts_of_rebalances_without_a_line_are_counted_in_one(run, caplog):
    most, groups = 2, 20

    async def main():
        node = made()
        node.tell_starts(most)
        async with serving(node) as rig:
            clients = [await rig.connect() for _ in range(groups)]
            for number, client in enumerate(clients):
                client.send(encode(11, 3, **member_of(f"g-{number}")))
            for client in clients:
                await client.read()

    with caplog.at_level(logging.INFO, "pykcoord.groups"):
        run(main())
    events = [record.__dict__ for record in caplog.records if record.name == "pykcoord.groups"]
    lines = sum(event["event"] == "rebalance" for event in events)
    counted = sum(event["count"] for event in events if event["event"] == "rebalances")
    assert counted >= groups // 2, "they came together"
    assert lines + counted == groups


def test_what_is_kept_is_what_is_told(tmp_path: Path):
    turn = begun(3, events=True)
    told = [Event.of(row) for row in turn.events]
    rows = turn.recorded.rows()
    assert [Event.of_json(json.loads(value)) for _, _, _, value in rows] == told
    assert [key.decode() for _, _, key, _ in rows] == [event.group_id for event in told]
    assert (len(turn.recorded), turn.recorded.shards) == (len(rows), [0])
    assert turn.recorded.size_bytes == sum(len(key) + len(value) for *_, key, value in rows)
    strange = [(0, 900, b"\xc3\xa4", b"{}"), (2, 5, b"g", b"{}"), (0, 1_100, b"", b"{}")]
    areas = record_areas([turn.recorded, EventBatch(strange)])
    log = EventLog(tmp_path, 0, merge=merge_events)
    assert [(shard, *times) for shard, _, *times, _ in areas] == [(0, 1_000, 1_100), (2, 5, 5)]
    log.append([Records(*areas[0][1:])])
    log.append([Records(*areas[0][1:])])
    of_shard = [*rows, strange[0], strange[2]]
    found = [(one.timestamp_ms, one.key, one.value) for one in log.records()]
    assert found == 2 * [row[1:] for row in of_shard]
    assert [one.offset for one in log.records()] == list(range(2 * len(of_shard)))
