"""The server over the real node: what crosses the border between sockets and core."""

from __future__ import annotations

import asyncio
import datetime
import os
import secrets
import struct
import sys
from collections import Counter
from typing import Any

import pytest
from support.kio_client import ask, decode, encode
from support.memory_log import MemoryLog

import pykcoord
from pykcoord._native import Node
from pykcoord.config import Config
from pykcoord.protocol import GROUP_APIS as ALL_GROUP_APIS

from .conftest import frame, serving

UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS = 3, 25, 27
COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR = 14, 16
# The folder of a clone has the same name, and what the tests call is in it too.
PACKAGE = os.path.join(os.path.dirname(pykcoord.__file__), "")
SHARDS = 3


# Without a coordinator of transactions, theirs are not served.
GROUP_APIS = [api for api in ALL_GROUP_APIS if api.key not in (27, 28)]


def made(**config: int) -> Node:
    settings = {"group_initial_rebalance_delay_ms": 0, "group_min_session_timeout_ms": 50}
    return Node(Config(**{**settings, **config}).native(), SHARDS, secrets.token_bytes(32))


def join(member_id: str = "", *, session_timeout_ms: int = 30_000, group_id: str = "g") -> dict:
    return {
        "group_id": group_id,
        "session_timeout": _ms(session_timeout_ms),
        "rebalance_timeout": _ms(30_000),
        "member_id": member_id,
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
        "reason": None,
    }


def commit(offset: int, *, topic: str = "orders", group_id: str = "simple") -> dict:
    partition = {
        "partition_index": 0,
        "committed_offset": offset,
        "committed_leader_epoch": -1,
        "committed_metadata": "",
    }
    return {
        "group_id": group_id,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "group_instance_id": None,
        "retention_time": _ms(-1),
        "topics": [{"name": topic, "topic_id": None, "partitions": [partition]}],
    }


def _ms(milliseconds: int) -> Any:
    return datetime.timedelta(milliseconds=milliseconds)


async def committed(client: Any, group_id: str = "simple") -> int:
    topics = [{"name": "orders", "partition_indexes": (0,)}]
    response = await ask(client, 9, 7, group_id=group_id, topics=topics, require_stable=False)
    return response.topics[0].partitions[0].committed_offset


async def commit_error(client: Any, offset: int, **more: Any) -> int:
    response = await ask(client, 8, 7, **commit(offset, **more))
    return response.topics[0].partitions[0].error_code


async def joined(client: Any, **more: Any) -> Any:
    """Join with JoinGroup v3 (no KIP-394) and sync as the leader; the join's response."""
    response = await ask(client, 11, 3, **join(**more))
    assert response.error_code == 0
    await ask(
        client, 14, 3, group_id="g", generation_id=response.generation_id,
        member_id=response.member_id, group_instance_id=None, assignments=[],
    )  # fmt: skip
    return response


async def heartbeat(client: Any, member_id: str, generation_id: int) -> int:
    response = await ask(
        client, 12, 3, group_id="g", generation_id=generation_id, member_id=member_id,
        group_instance_id=None,
    )  # fmt: skip
    return response.error_code


@pytest.mark.parametrize(("key", "_name", "lowest", "highest"), GROUP_APIS)
def test_what_is_advertised_is_what_the_core_serves(run, key, _name, lowest, highest):
    """A body that is cut off is refused for its end, a version outside for its number."""

    async def main():
        async with serving(made()) as rig:
            reasons = []
            rig.server.refused = lambda host, reason: reasons.append(reason)
            for version in (lowest - 1, *range(lowest, highest + 1), highest + 1):
                client = await rig.connect()
                client.send(frame(key, version))
                if key == 16 and 0 <= version < 3:  # ListGroups has no body before v3
                    assert await client.read()
                    reasons.append("answered")
                    continue
                assert await client.closed()
            outside = [reasons[0], reasons[-1]]
            assert all("version" in reason for reason in outside), reasons
            assert not any("version" in reason for reason in reasons[1:-1]), reasons

    run(main())


def test_a_topic_of_the_catalogue_can_be_committed_to_at_once(run):
    async def main():
        async with serving(made()) as rig:
            client = await rig.connect()
            assert await commit_error(client, 5, topic="new") == UNKNOWN_TOPIC_OR_PARTITION
            rig.catalogue.create("new", 1)
            assert await commit_error(client, 5, topic="new") == 0

    run(main())


def test_the_offsets_of_a_deleted_topic_are_gone(run):
    async def main():
        async with serving(made()) as rig:
            client = await rig.connect()
            assert await commit_error(client, 5) == 0
            rig.catalogue.delete("orders")
            rig.catalogue.create("orders", 1)
            await rig.until(lambda: rig.node.stats()["offsets"] == 0)
            assert await committed(client) == -1

    run(main())


def test_a_heartbeat_calls_no_python_of_its_own(run):
    """Functions are called once a turn, however many requests share it; none is called once a
    request. (Timers may have a turn of their own meanwhile.)"""

    async def main():
        async with serving(made()) as rig:
            clients = [await rig.connect() for _ in range(100)]
            member = await joined(clients[0])
            beat = encode(
                12, 3, 1, group_id="g", generation_id=member.generation_id,
                member_id=member.member_id, group_instance_id=None,
            )  # fmt: skip
            calls: list[str] = []

            def called(python_frame: Any, event: str, _: Any) -> None:
                if event == "call" and python_frame.f_code.co_filename.startswith(PACKAGE):
                    calls.append(python_frame.f_code.co_name)

            steps = (
                rig.server.hub.counts.requests()[12][0]
                if 12 in rig.server.hub.counts.requests()
                else 0
            )
            sys.setprofile(called)
            try:
                for client in clients:
                    client.send(beat)
                for client in clients:
                    assert (await client.read())[8:] == b"\x00\x00"
            finally:
                sys.setprofile(None)
            assert rig.server.hub.counts.requests()[12][0] == steps + 100
            called_most, times = Counter(calls).most_common(1)[0]
            assert times < 50, called_most

    run(main())


def test_pitfall_14_another_connection_is_served_while_a_join_is_parked(run):
    async def main():
        async with serving(made()) as rig:
            first, second = await rig.connect(), await rig.connect()
            member = await joined(first)
            second.send(encode(11, 3, 1, **join()) + encode(18, 0, 2))
            await rig.until(lambda: rig.server.hub.in_flight)
            code = await heartbeat(first, member.member_id, member.generation_id)
            assert code == REBALANCE_IN_PROGRESS
            again = await ask(first, 11, 3, **join(member.member_id))
            assert again.generation_id == 2
            replies = [await second.read(), await second.read()]
            assert [struct.unpack_from(">i", reply)[0] for reply in replies] == [1, 2]
            assert decode(11, 3, replies[0]).error_code == 0

    run(main())


def test_a_long_answer_reaches_its_client_whole_and_in_several_turns(run):
    async def main():
        node = made()
        node.send_in_parts()
        async with serving(node) as rig:
            fat, other = await rig.connect(), await rig.connect()
            metadata = secrets.token_bytes(3 << 20)
            asked = {**join(), "protocols": [{"name": "range", "metadata": metadata}]}
            turns: list[int] = []
            rig.metrics.turn = lambda frames, seconds: turns.append(frames)
            fat.send(encode(11, 3, 1, **asked) + encode(18, 0, 2))
            assert await heartbeat(other, "nobody", 1) == UNKNOWN_MEMBER_ID
            answer = decode(11, 3, await fat.read())
            assert [member.metadata for member in answer.members] == [metadata]
            assert len(turns) > 5
            # What its client sent meanwhile is next, and comes behind it.
            assert struct.unpack_from(">i", await fat.read())[0] == 2
            assert not rig.server.hub.in_flight
            assert rig.server.hub.sent_bytes_total > len(metadata)

    run(main())


def test_the_rest_of_a_long_answer_ends_with_its_connection(run):
    async def main():
        node = made()
        node.send_in_parts()
        async with serving(node) as rig:
            fat, other = await rig.connect(), await rig.connect()
            asked = {**join(), "protocols": [{"name": "range", "metadata": bytes(9 << 20)}]}
            fat.send(encode(11, 3, 1, **asked))
            await rig.until(lambda: rig.server.hub.sent_bytes_total > 0)
            fat.close()
            await rig.until(lambda: len(rig.server.hub.connections) == 1)
            assert await heartbeat(other, "nobody", 1) == UNKNOWN_MEMBER_ID
            assert not rig.server.hub.in_flight

    run(main())


def test_a_session_ends_without_any_traffic(run):
    async def main():
        async with serving(made()) as rig:
            client = await rig.connect()
            member = await joined(client, session_timeout_ms=300)
            await rig.until(lambda: rig.node.stats()["members"] == 0)
            assert await heartbeat(client, member.member_id, 1) == UNKNOWN_MEMBER_ID

    run(main())


def test_nothing_acknowledged_is_lost_when_the_disk_fails(run, monkeypatch):
    monkeypatch.setattr("pykcoord.leading._RETRY_SECONDS", (0.01, 0.01))

    async def main():
        async with serving(made(), log=MemoryLog(SHARDS)) as rig:
            client = await rig.connect()
            assert await commit_error(client, 41) == 0
            rig.log.fail = {shard: OSError(28, "No space left") for shard in range(SHARDS)}
            rig.log.fail_take = 2
            assert await commit_error(client, 42) == NOT_COORDINATOR
            assert await commit_error(client, 43) == COORDINATOR_LOAD_IN_PROGRESS
            await rig.until(lambda: not rig.runtime.shards_away)
            assert len(rig.log.taken[SHARDS:]) == 3
            assert await committed(client) == 41
            assert await commit_error(client, 44) == 0
            assert await committed(client) == 44

    run(main())


def test_a_new_node_on_the_same_log_knows_everything(run):
    async def main():
        log = MemoryLog(SHARDS)
        async with serving(made(), log=log) as rig:
            client = await rig.connect()
            assert await commit_error(client, 42) == 0
            member = await joined(client)
        async with serving(made(), log=log) as rig:
            client = await rig.connect()
            assert await committed(client) == 42
            assert await heartbeat(client, member.member_id, member.generation_id) == 0

    run(main())


def test_a_commit_is_not_answered_before_it_is_durable(run):
    async def main():
        async with serving(made(), log=MemoryLog(SHARDS)) as rig:
            client, other = await rig.connect(), await rig.connect()
            rig.log.hold = True
            client.send(encode(8, 7, **commit(42)))
            await rig.until(lambda: rig.log._held)
            assert await other.ask(encode(18, 0))
            assert rig.server.hub.in_flight
            rig.log.hold = False
            rig.log.release_held()
            assert decode(8, 7, await client.read()).topics[0].partitions[0].error_code == 0

    run(main())


def test_a_graceful_stop_answers_parked_joins_not_coordinator(run):
    async def main():
        async with serving(made()) as rig:
            first, second = await rig.connect(), await rig.connect()
            await joined(first)
            second.send(encode(11, 3, **join()))
            await rig.until(lambda: rig.server.hub.in_flight)
            stopping = asyncio.ensure_future(rig.server.stop())
            assert decode(11, 3, await second.read()).error_code == NOT_COORDINATOR
            await stopping

    run(main())


def test_a_client_that_vanishes_while_its_join_is_parked(run):
    async def main():
        async with serving(made()) as rig:
            first, second = await rig.connect(), await rig.connect()
            member = await joined(first)
            second.send(encode(11, 3, **join()))
            await rig.until(lambda: rig.server.hub.in_flight)
            second.writer.transport.abort()
            await rig.until(lambda: not rig.server.hub.in_flight)
            again = await ask(first, 11, 3, **join(member.member_id))
            # As with Kafka the vanished member stays until its session ends.
            assert (again.error_code, len(again.members)) == (0, 2)

    run(main())
