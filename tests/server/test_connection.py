"""Framing, one request in flight, order, back-pressure, limits, idle close, graceful stop."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct

import pytest
from support.memory_log import MemoryLog
from support.scripted_node import COMMIT, HEARTBEAT, INVALID, JOIN, NOT_COORDINATOR, ScriptedNode

from pykcoord.server.api.registry import LONGEST_FRAMES
from pykcoord.server.listener import client_address

from .conftest import frame, serving


def _correlation_ids(replies: list[bytes]) -> list[int]:
    return [struct.unpack_from(">i", reply)[0] for reply in replies]


def test_a_frame_may_arrive_split_at_every_byte(run):
    async def main():
        async with serving() as rig:
            client = await rig.connect()
            whole = frame(HEARTBEAT, correlation_id=1)
            for cut in range(1, len(whole)):
                client.send(whole[:cut])
                before = rig.server.hub.received_bytes_total
                await rig.until(lambda b=before: rig.server.hub.received_bytes_total >= b)
                await client.writer.drain()
                await asyncio.sleep(0)
                client.send(whole[cut:])
                assert await client.read() == b"\x00\x00\x00\x01beat"

    run(main())


def test_a_frame_may_arrive_byte_by_byte(run):
    async def main():
        async with serving() as rig:
            client = await rig.connect()
            hub = rig.server.hub
            for index, byte in enumerate(frame(HEARTBEAT)):
                client.send(bytes([byte]))
                await rig.until(lambda i=index: hub.received_bytes_total == i + 1)
            assert await client.read() == b"\x00\x00\x00\x07beat"

    run(main())


def test_many_frames_in_one_segment_are_answered_in_order_one_a_turn(run):
    async def main():
        async with serving() as rig:
            client = await rig.connect()
            client.send(b"".join(frame(HEARTBEAT, correlation_id=n) for n in range(50)))
            replies = [await client.read() for _ in range(50)]
            assert _correlation_ids(replies) == list(range(50))
            assert max(len(frames) for _, frames, _ in rig.node.steps) == 1

    run(main())


def test_frames_of_one_iteration_share_a_step(run):
    async def main():
        async with serving() as rig:
            clients = [await rig.connect() for _ in range(20)]
            for client in clients:  # no await between: they are readable together
                client.send(frame(HEARTBEAT))
            for client in clients:
                await client.read()
            assert max(len(frames) for _, frames, _ in rig.node.steps) > 1

    run(main())


@pytest.mark.parametrize("size", [0, -1, -(2**31), 104_857_601, 2**31 - 1])
def test_an_impossible_length_closes_that_connection_only(run, size, caplog):
    async def main():
        async with serving() as rig:
            client, other = await rig.connect(), await rig.connect()
            client.send(struct.pack(">i", size) + b"\x00" * 8)
            assert await client.closed()
            assert await other.ask(frame(HEARTBEAT))
            assert rig.node.steps[0][1] == [] or len(rig.node.steps) > 1

    with caplog.at_level(logging.WARNING, "pykcoord.server"):
        run(main())
    refused = [record for record in caplog.records if record.__dict__.get("event") == "refused"]
    assert len(refused) == 1
    assert str(size) in refused[0].getMessage()
    assert refused[0].__dict__["client_host"] == "/127.0.0.1"


def test_a_length_may_be_as_large_as_the_limit(run):
    async def main():
        async with serving(socket_request_max_bytes=1000) as rig:
            client = await rig.connect()
            padding = 1000 - (len(frame(HEARTBEAT)) - 4)
            assert await client.ask(frame(HEARTBEAT, body=b"x" * padding))
            client.send(frame(HEARTBEAT, body=b"x" * (padding + 1)))
            assert await client.closed()

    run(main())


@pytest.mark.parametrize("key", [3, 13], ids=["Metadata", "LeaveGroup"])
def test_a_frame_that_its_api_does_not_read_is_refused_before_it_has_come(run, key, caplog):
    name, most = LONGEST_FRAMES[key]

    async def main():
        async with serving() as rig:
            client = await rig.connect()
            client.send(struct.pack(">ihhi", most + 1, key, 3, 1))
            assert await client.closed()
            assert not rig.node.steps or all(not frames for _, frames, _ in rig.node.steps)
            client = await rig.connect()
            client.send(struct.pack(">ihhi", most, key, 3, 1))
            await rig.settled(lambda: rig.server.hub.received_bytes_total)
            assert len(rig.server.hub.connections) == 1

    run(main())
    assert f"{name} of {most + 1} bytes; at most {most} are read" in caplog.text


def test_what_stands_behind_a_long_frame_is_served_after_it(run):
    async def main():
        async with serving() as rig:
            client = await rig.connect()
            data = frame(HEARTBEAT, 0, 1, b"x" * 1_000_000) + frame(HEARTBEAT, 0, 2)
            for start in range(0, len(data), 60_001):
                client.send(data[start : start + 60_001])
                await rig.settled(lambda: rig.server.hub.received_bytes_total)
            assert _correlation_ids([await client.read() for _ in range(2)]) == [1, 2]
            sent = [data for _, frames, _ in rig.node.steps for _, _, data in frames]
            assert [len(one) for one in sent] == [1_000_000 + len(sent[1]), len(sent[1])]
            assert sent[0].endswith(b"x" * 1_000_000)

    run(main())


def test_a_client_that_leaves_in_a_long_frame_leaves_nothing(run):
    async def main():
        async with serving() as rig:
            client = await rig.connect()
            client.send(frame(HEARTBEAT, 0, 1, b"x" * 1_000_000)[:500_000])
            await rig.settled(lambda: rig.server.hub.received_bytes_total)
            client.close()
            await rig.until(lambda: not rig.server.hub.connections)
            assert await (await rig.connect()).ask(frame(HEARTBEAT))

    run(main())


def test_responses_keep_their_order_behind_a_parked_join(run):
    async def main():
        async with serving() as rig:
            client, other = await rig.connect(), await rig.connect()
            client.send(frame(JOIN, correlation_id=1) + frame(HEARTBEAT, correlation_id=2))
            client.send(frame(18, 0, correlation_id=3))
            await rig.until(lambda: rig.node.parked_joins)
            # Another connection of the same client is served meanwhile (pitfall 14).
            assert await other.ask(frame(HEARTBEAT, correlation_id=9)) == b"\x00\x00\x00\x09beat"
            rig.node.answer_joins = True
            rig.runtime.wake()
            replies = [await client.read() for _ in range(3)]
            assert _correlation_ids(replies) == [1, 2, 3]
            assert replies[0][4:] == b"joined"

    run(main())


def test_pipelined_frames_wait_in_the_socket_beyond_a_bound(run):
    async def main():
        async with serving() as rig:
            client = await rig.connect()
            client.send(frame(JOIN, correlation_id=0))
            await rig.until(lambda: rig.node.parked_joins)
            big = frame(HEARTBEAT, correlation_id=1, body=b"x" * 100_000)
            client.send(big * 200)  # 20 MB
            await rig.until(lambda: rig.server.hub.received_bytes_total > 65_536)
            received = await rig.settled(lambda: rig.server.hub.received_bytes_total)
            assert received < 2_000_000
            rig.node.answer_joins = True
            rig.runtime.wake()
            assert [(await client.read())[4:] for _ in range(201)] == [b"joined"] + [b"beat"] * 200

    run(main())


@pytest.mark.parametrize("setting", [50_000, -1])
def test_the_system_receives_no_more_than_is_set(run, setting):
    """It took megabytes of a frame at once, and those who sent heartbeats waited for it."""

    async def main():
        with socket.socket() as plain:
            systems = plain.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        async with serving(socket_receive_buffer_bytes=setting) as rig:
            await rig.connect()
            receives = rig.server._listener._socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
            # Linux doubles it.
            assert receives in ({systems} if setting < 0 else {setting, 2 * setting})

    run(main())


def test_a_client_that_does_not_read_is_not_served_further(run):
    async def main():
        async with serving() as rig:
            reply = b"y" * 1_000_000
            rig.node._handle = lambda turn, now, ticket, data: turn.reply(ticket, data, reply)
            client = await rig.connect()
            client.send(frame(HEARTBEAT) * 100)
            await rig.until(lambda: rig.server.hub.sent_bytes_total >= 1_000_000)
            sent = await rig.settled(lambda: rig.server.hub.sent_bytes_total)
            assert sent < 50_000_000
            for _ in range(100):
                assert len(await client.read()) == 4 + len(reply)

    run(main())


def test_a_vanished_client_abandons_its_request(run):
    async def main():
        async with serving() as rig:
            client = await rig.connect()
            client.send(frame(JOIN))
            await rig.until(lambda: rig.node.parked_joins)
            (ticket,) = rig.node.parked_joins
            client.writer.transport.abort()
            await rig.until(lambda: rig.node.abandoned)
            assert rig.node.abandoned == [ticket]
            assert not rig.server.hub.in_flight
            assert not rig.server.hub.connections

    run(main())


def test_an_invalid_frame_closes_its_connection_with_one_line(run, caplog):
    async def main():
        async with serving() as rig:
            client, other = await rig.connect(), await rig.connect()
            client.send(frame(INVALID))
            assert await client.closed()
            assert await other.ask(frame(HEARTBEAT))

    with caplog.at_level(logging.WARNING, "pykcoord.server"):
        run(main())
    assert [r.getMessage() for r in caplog.records] == [
        "/127.0.0.1: refused, connection closed: the script says so"
    ]


@pytest.mark.parametrize(
    ("key", "version"), [(-1, 0), (200, 0), (32767, 0), (3, 14), (10, 7), (68, 2), (3, -1)]
)
def test_an_unknown_api_or_version_closes_only_that_connection(run, key, version, caplog):
    async def main():
        async with serving() as rig:
            client, other = await rig.connect(), await rig.connect()
            client.send(frame(key, version, body=b"\x00" * 8))
            assert await client.closed()
            assert await other.ask(frame(HEARTBEAT))

    with caplog.at_level(logging.WARNING, "pykcoord.server"):
        run(main())
    assert len(caplog.records) == 1


def test_max_connections(run):
    async def main():
        async with serving(max_connections=2) as rig:
            first, second = await rig.connect(), await rig.connect()
            assert await first.ask(frame(HEARTBEAT))
            assert await second.ask(frame(HEARTBEAT))
            assert await (await rig.connect()).closed()
            first.close()
            await rig.until(lambda: len(rig.server.hub.connections) == 1)
            assert await (await rig.connect()).ask(frame(HEARTBEAT))

    run(main())


def test_max_connections_per_ip(run):
    async def main():
        options = {"max_connections_by_ip": {"127.0.0.2": 2}}
        async with serving(max_connections_per_ip=1, server_options=options) as rig:
            first = await rig.connect()
            assert await first.ask(frame(HEARTBEAT))
            assert await (await rig.connect()).closed()
            first.close()
            await rig.until(lambda: not rig.server.hub.connections_by_ip)
            assert await (await rig.connect()).ask(frame(HEARTBEAT))

    run(main())


def test_idle_connections_are_closed_and_busy_ones_are_not(run):
    async def main():
        async with serving(connections_max_idle_ms=600) as rig:
            idle, busy, parked = [await rig.connect() for _ in range(3)]
            parked.send(frame(JOIN))
            closed = asyncio.ensure_future(idle.closed())
            while not closed.done():
                await busy.ask(frame(HEARTBEAT))
                await asyncio.sleep(0.02)
            assert closed.result()
            assert await busy.ask(frame(HEARTBEAT))
            rig.node.answer_joins = True
            rig.runtime.wake()
            assert (await parked.read())[4:] == b"joined"

    run(main())


def test_a_client_that_never_reads_its_replies_is_cut_off(run):
    """Closing would wait for ever until it has read what was written to it."""

    async def main():
        async with serving(connections_max_idle_ms=200) as rig:
            reply = b"y" * 1_000_000
            rig.node._handle = lambda turn, now, ticket, data: turn.reply(ticket, data, reply)
            client = await rig.connect()
            client.send(frame(HEARTBEAT) * 100)
            await rig.until(lambda: rig.server.hub.sent_bytes_total)
            await rig.until(lambda: not rig.server.hub.connections)
            client.writer.transport.abort()

    run(main())


def test_a_graceful_stop_answers_what_is_in_flight(run):
    async def main():
        log = MemoryLog(1, hold=True)
        async with serving(log=log) as rig:
            committer, joiner, idle = [await rig.connect() for _ in range(3)]
            committer.send(frame(COMMIT) + frame(HEARTBEAT))
            joiner.send(frame(JOIN))
            await rig.until(lambda: rig.node.parked_commits and rig.node.parked_joins)
            address = rig.server.address
            stopping = asyncio.ensure_future(rig.server.stop())
            await asyncio.sleep(0)
            log.hold = False
            log.release_held()
            assert (await committer.read())[4:] == b"durable"
            assert (await joiner.read())[4:] == NOT_COORDINATOR
            assert await idle.closed()
            assert await committer.closed()  # the pipelined heartbeat was not taken any more
            await stopping
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection(*address)

    run(main())


def test_a_stop_is_bounded_when_the_disk_hangs(run):
    async def main():
        log = MemoryLog(1, hold=True)
        async with serving(log=log) as rig:
            client = await rig.connect()
            client.send(frame(COMMIT))
            await rig.until(lambda: rig.node.parked_commits)
            await rig.server.stop(grace_seconds=0.05)
            assert await client.closed()

    run(main())


def test_a_failed_node_ends_the_server(run, caplog):
    async def main():
        async with serving() as rig:
            client = await rig.connect()
            rig.node.error = AssertionError("an invariant is broken")
            client.send(frame(HEARTBEAT))
            assert await client.closed()
            with pytest.raises(RuntimeError, match="an invariant is broken"):
                await rig.server.wait_ended()

    run(main())
    assert any(record.levelname == "CRITICAL" for record in caplog.records)


def test_requests_are_counted_by_api(run):
    async def main():
        async with serving() as rig:
            client = await rig.connect()
            for _ in range(5):
                await client.ask(frame(HEARTBEAT))
            await client.ask(frame(18, 0))
            requests = rig.server.hub.counts.requests()
            assert {key: count for key, (count, _, _) in requests.items()} == {12: 5, 18: 1}
            assert sum(requests[12][2]) == 5
            registry = rig.metrics.registry
            labels = {"api": "Heartbeat"}
            assert registry.get_sample_value("pykcoord_request_seconds_count", labels) == 5
            assert registry.get_sample_value("pykcoord_connections") == 1
            assert registry.get_sample_value("pykcoord_turn_frames_total") == 6

    run(main())


def test_a_name_to_listen_on_is_advertised_as_it_was_given(run):
    async def main():
        async with serving(server_options={"listen": ("localhost", 0)}) as rig:
            client = await rig.connect()
            reply = await client.ask(frame(10, 0, body=b"\x00\x01g"))
            port = rig.server.address[1]
            assert reply[4:] == b"\0\0" + b"\0\0\0\1" + b"\0\x09localhost" + port.to_bytes(4, "big")

    run(main())


def test_an_address_in_use_is_an_error_of_the_start(run):
    async def main():
        async with serving() as rig:
            with pytest.raises(OSError, match="in use"):
                async with serving(server_options={"listen": rig.server.address}):
                    pass

    run(main())


@pytest.mark.parametrize(
    ("peer", "expected"),
    [
        (("10.0.0.1", 5), ("10.0.0.1", "/10.0.0.1")),
        (("::1", 5, 0, 0), ("0:0:0:0:0:0:0:1", "/0:0:0:0:0:0:0:1")),
        (("fe80::12%eth0", 5, 0, 2), ("fe80:0:0:0:0:0:0:12", "/fe80:0:0:0:0:0:0:12")),
        (("::ffff:10.0.0.1", 5, 0, 0), ("10.0.0.1", "/10.0.0.1")),
        (None, ("", "/")),
    ],
)
def test_client_hosts_are_written_as_java_does(peer, expected):
    assert client_address(peer) == expected


def test_node_needs_no_sockets_to_be_told_of_topics(run):
    async def main():
        node = ScriptedNode()
        async with serving(node, topics={"orders": 3}) as rig:
            assert [(name, count) for name, _, count in node.topics] == [("orders", 3)]
            rig.catalogue.create("more", 2)
            assert [(name, count) for name, _, count in node.topics] == [
                ("orders", 3),
                ("more", 2),
            ]

    run(main())
