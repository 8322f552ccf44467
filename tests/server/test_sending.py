"""Replies that leave together, past their transports: each reaches its client, whole, in order."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import socket
import struct
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import uvloop
from support.scripted_node import HEARTBEAT, ScriptedNode, ScriptedTurn

from pykcoord.server import accepting
from pykcoord.server._connection import Connection, Hub
from pykcoord.server._sending import share_cores
from pykcoord.server.listener import peer_of

from .conftest import MOST_OF_A_TURN, Client, Rig, frame, serving

# A full turn's replies are sent without the interpreter's lock, and shared with a second thread.
MANY = 600
API_VERSIONS = 18


async def _ask_together(rig: Rig, clients: list[Client], first: int) -> None:
    """One request of each at the same time; each has to get the answer to its own."""
    steps = len(rig.node.steps)
    for number, client in enumerate(clients, first):
        client.send(frame(HEARTBEAT, correlation_id=number))
    for number, client in enumerate(clients, first):
        assert await client.read() == struct.pack(">i", number) + b"beat"
    assert max(len(frames) for _, frames, _ in rig.node.steps[steps:]) >= MOST_OF_A_TURN


async def _serve_many(rounds: int = 20) -> None:
    async with serving() as rig:
        clients = [await rig.connect() for _ in range(MANY)]
        for turn in range(rounds):
            await _ask_together(rig, clients, first=turn * MANY)
        assert not rig.server.hub.in_flight


def test_many_replies_of_one_turn_reach_their_clients(run):
    run(_serve_many())


def _in_a_child() -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve_many(rounds=2))


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_serves_as_its_parent_did(run):
    run(_serve_many(rounds=2))  # the parent's second thread is there now, and not in the child
    child = multiprocessing.get_context("fork").Process(target=_in_a_child)
    child.start()
    child.join(30)
    hangs = child.is_alive()
    child.kill()
    assert not hangs
    assert child.exitcode == 0


def _exit_with_threads_that_send(cores: set[int], processes: int) -> None:
    os.sched_setaffinity(0, cores)
    share_cores(processes)
    before = len([*Path("/proc/self/task").iterdir()]) - threading.active_count()
    _in_a_child()
    after = len([*Path("/proc/self/task").iterdir()]) - threading.active_count()
    sys.exit(after - before)


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="of Linux")
@pytest.mark.parametrize(
    ("cores", "processes", "second"),
    [(2, 1, 1), (1, 1, 0), (2, 2, 0)],
    ids=["two cores", "one core", "two cores that others need"],
)
def test_a_second_thread_sends_where_a_core_is_to_spare(cores, processes, second):
    usable = sorted(os.sched_getaffinity(0))[:cores]
    if len(usable) < cores:
        pytest.skip("there is one core")
    child = multiprocessing.get_context("spawn").Process(
        target=_exit_with_threads_that_send, args=(set(usable), processes)
    )
    child.start()
    child.join(60)
    child.kill()
    assert child.exitcode == second


@pytest.mark.parametrize("size", [1_000_000, 8_000_000])
def test_what_a_socket_does_not_take_at_once_comes_whole_and_in_order(run, size):
    async def main():
        async with serving() as rig:
            body = bytes(range(256)) * (size // 256)
            rig.node._handle = lambda turn, now, ticket, data: turn.reply(ticket, data, body)
            clients = [await rig.connect() for _ in range(3)]
            for client in clients:
                client.send(b"".join(frame(HEARTBEAT, correlation_id=n) for n in range(5)))
            for client in clients:
                for number in range(5):
                    assert await client.read() == struct.pack(">i", number) + body

    run(main())


def test_answers_of_the_node_and_of_the_core_keep_their_order(run):
    async def main():
        async with serving() as rig:
            client = await rig.connect()
            keys = [HEARTBEAT, API_VERSIONS, API_VERSIONS, HEARTBEAT] * 25
            client.send(b"".join(frame(key, 0, number) for number, key in enumerate(keys)))
            for number, key in enumerate(keys):
                reply = await client.read()
                assert struct.unpack_from(">i", reply) == (number,)
                assert (reply[4:] == b"beat") == (key == HEARTBEAT)

    run(main())


def test_replies_to_clients_that_have_gone_disturb_nobody(run):
    async def main():
        async with serving() as rig:
            clients = [await rig.connect() for _ in range(MANY)]
            for client in clients:
                client.send(frame(HEARTBEAT))
            for client in clients[::2]:
                client.writer.transport.abort()
            for client in clients[1::2]:
                assert await client.read() == b"\x00\x00\x00\x07beat"
            await rig.until(lambda: len(rig.server.hub.connections) == MANY // 2)
            assert not rig.server.hub.in_flight

    run(main())


class _Handler:
    """The server of a hub, where only replies matter."""

    def wake(self) -> None:
        pass

    def connected(self, session: object) -> None:
        pass


class _Transport:
    """One that sends when the test says so, over a socket that takes little."""

    def __init__(self) -> None:
        self.socket, self.client = socket.socketpair()
        self.client.settimeout(30)
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
        self.buffer = b""

    def get_extra_info(self, name: str) -> Any:
        return {"socket": self.socket, "peername": ("127.0.0.1", 1)}.get(name)

    def get_write_buffer_size(self) -> int:
        return len(self.buffer)

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes) -> None:
        self.buffer += data

    def received(self, size: int) -> bytes:
        found = b""
        while len(found) < size and (data := self.client.recv(size - len(found))):
            found += data
        return found


def test_nothing_overtakes_what_the_transport_has_left_to_send():
    limits = {"max_frame_bytes": 1_000, "max_connections": 9, "max_connections_per_ip": 9}
    hub = Hub(_Handler(), lambda: 0.0, **limits, max_connections_by_ip={})
    transport = _Transport()
    connection = Connection(hub, peer_of)
    connection.connection_made(transport)

    def answered(reply: bytes) -> None:
        connection.data_received(frame(HEARTBEAT))
        ((ticket, _, _),) = hub.take()
        hub.deliver([(ticket, reply)])

    large = b"1" * 200_000
    answered(large)
    left = len(transport.buffer)
    assert 0 < left < len(large), "the socket took a part"
    taken = transport.received(len(large) - left)  # there is room again
    answered(b"2")
    assert transport.buffer.endswith(b"12"), "it waits behind what is left"
    transport.buffer, rest = b"", transport.buffer  # as if the transport had sent it
    answered(b"3")
    assert transport.buffer == b"", "it is sent at once"
    assert taken + rest + transport.received(1) == large + b"2" + b"3"
    transport.socket.close()
    transport.client.close()


def test_a_reply_that_fails_takes_none_of_those_before_it_along():
    limits = {"max_frame_bytes": 1_000, "max_connections": 9, "max_connections_per_ip": 9}
    hub = Hub(_Handler(), lambda: 0.0, **limits, max_connections_by_ip={})
    transports = [_Transport(), _Transport()]
    for transport in transports:
        connection = Connection(hub, peer_of)
        connection.connection_made(transport)
        connection.data_received(frame(HEARTBEAT))
    tickets = [ticket for ticket, _, _ in hub.take()]
    with pytest.raises(TypeError):
        hub.deliver([(tickets[0], b"sent"), (tickets[1], None)])
    assert transports[0].received(4) == b"sent"
    for transport in transports:
        transport.socket.close()
        transport.client.close()


class _Talkative(ScriptedNode):
    """Answers each heartbeat with more than a socket takes."""

    SIZE = 32 << 20

    def _handle(self, turn: ScriptedTurn, now_ms: int, ticket: int, frame: bytes) -> None:
        turn.reply(ticket, frame, bytes(self.SIZE))


def test_what_a_client_has_not_taken_is_told_to_the_node(run):
    async def main():
        async with serving(_Talkative()) as rig:
            hub, client, other = rig.server.hub, await rig.connect(), await rig.connect()
            client.writer.transport.pause_reading()
            client.send(frame(HEARTBEAT))
            await rig.until(lambda: rig.node.steps and rig.node.steps[-1][1] and not hub.in_flight)
            unsent, steps = hub.unsent_bytes, len(rig.node.steps)
            other.send(frame(HEARTBEAT))
            await rig.until(lambda: len(rig.node.steps) > steps and not hub.in_flight)
            if accepting.IS_AVAILABLE:
                assert 0 < unsent < _Talkative.SIZE
                assert rig.node.unsent_bytes[-1] == unsent
            client.writer.transport.resume_reading()
            for one in (client, other):
                assert len(await one.read()) == 4 + _Talkative.SIZE
            await rig.until(lambda: hub.unsent_bytes == 0)
            client.send(frame(HEARTBEAT))
            await rig.until(lambda: hub.unsent_bytes > 0 or not accepting.IS_AVAILABLE)
            client.writer.transport.abort()
            await rig.until(lambda: hub.unsent_bytes == 0)

    run(main())
