"""Many clients at once: each in its turn, whatever the others do, and wherever bytes are split."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import resource
import socket
import struct
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from support.scripted_node import HEARTBEAT, JOIN

from .conftest import MOST_OF_A_TURN, Client, Rig, frame, serving

MANY = 1_200
PAUSE_SECONDS = 0.05


@pytest.fixture(scope="module", autouse=True)
def _many_files() -> Iterator[None]:
    """Two of them for each of so many clients."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def _connect_many(rig: Rig) -> list[socket.socket]:
    clients = []
    for _ in range(MANY):
        client = socket.create_connection(rig.server.address)
        client.setblocking(False)
        clients.append(client)
        await asyncio.sleep(0)
    await rig.until(lambda: len(rig.server.hub.connections) == MANY)
    return clients


def test_nobody_is_served_twice_before_all_are_served_once(run):
    async def main():
        async with serving() as rig:
            clients = await _connect_many(rig)
            order: list[int] = []

            def serve(turn, now, ticket, data):
                (number,) = struct.unpack_from(">i", data, 4)
                order.append(number)
                if len(order) < 3 * MANY:  # it asks again before other clients are heard
                    clients[number].send(frame(HEARTBEAT, correlation_id=number))
                turn.reply(ticket, data, b"beat")

            rig.node._handle = serve
            for number, client in enumerate(clients):
                client.send(frame(HEARTBEAT, correlation_id=number))
            await rig.until(lambda: len(order) == 4 * MANY - 1)
            for begin in (0, MANY, 2 * MANY):
                assert sorted(order[begin : begin + MANY]) == list(range(MANY))
            for client in clients:
                client.close()

    run(main())


def test_a_turn_has_a_bounded_number_of_frames(run, request):
    async def main():
        async with serving() as rig:
            clients = await _connect_many(rig)
            for client in clients:
                client.send(frame(HEARTBEAT))
            await rig.until(lambda: sum(len(frames) for _, frames, _ in rig.node.steps) == MANY)
            largest = max(len(frames) for _, frames, _ in rig.node.steps)
            if request.node.callspec.params["run"].endswith("unpolled"):
                assert largest > MOST_OF_A_TURN  # what the poller is there for
            else:
                assert largest == MOST_OF_A_TURN
            for client in clients:
                client.close()

    run(main())


def test_an_end_that_comes_with_the_last_request_is_seen(run):
    async def main():
        async with serving() as rig:
            for number, body in enumerate((b"", b"x" * 65_536, b"x" * 1_000_000), 1):
                client = await rig.connect()
                client.send(frame(JOIN, body=body))
                client.writer.write_eof()
                await rig.until(lambda n=number: len(rig.node.abandoned) == n)
                await rig.until(lambda: not rig.server.hub.connections)
                assert await client.closed()

    run(main())


def test_requests_that_fill_what_is_read_at_once_arrive_whole(run):
    async def main():
        async with serving() as rig:
            overhead = len(frame(HEARTBEAT))
            for size in (65_535, 65_536, 65_537, 131_072, 3_000_000):
                client = await rig.connect()
                for number in range(3):
                    data = frame(HEARTBEAT, 0, number, b"x" * (size - overhead))
                    assert await client.ask(data) == struct.pack(">i", number) + b"beat"
                client.close()

    run(main())


def test_clients_that_send_much_do_not_hold_up_the_others(run):
    """More of them than fit into what one poll reads."""

    async def main():
        async with serving() as rig:
            heavy = [await rig.connect() for _ in range(20)]
            light = [await rig.connect() for _ in range(20)]
            body = b"x" * 1_000_000
            for number, client in enumerate(heavy):
                client.send(frame(HEARTBEAT, 0, number, body))
            for number, client in enumerate(light):
                client.send(frame(HEARTBEAT, 0, number))
            for clients in (light, heavy):
                for number, client in enumerate(clients):
                    assert await client.read() == struct.pack(">i", number) + b"beat"
            sizes = [len(data) for _, frames, _ in rig.node.steps for _, _, data in frames]
            assert max(sizes[:20]) < 1_000, "who sends little is served first"

    run(main())


def test_a_turn_takes_little_of_those_who_send_much(run, request):
    """What came before a heartbeat is not all read before it."""
    is_polled = not request.node.callspec.params["run"].endswith("unpolled")

    async def main():
        async with serving() as rig:
            heavy = [await rig.connect() for _ in range(100)]
            light = await rig.connect()
            for number, client in enumerate(heavy):
                client.send(frame(HEARTBEAT, 0, number, b"x" * 60_000))
            light.send(frame(HEARTBEAT, 0, 200))
            for client in (*heavy, light):
                await client.read()
            steps = [[len(data) for _, _, data in frames] for _, frames, _ in rig.node.steps]
            most = 4 * 65_536 + 1_000
            assert (max(map(sum, steps)) <= most) is is_polled
            if is_polled:
                first = next(n for n, step in enumerate(steps) if step)
                assert min(steps[first]) < 1_000, "who sends little is served first"

    run(main())


@pytest.mark.parametrize("size", [200, 60_000])
@pytest.mark.parametrize("run", ["asyncio", "uvloop"], indirect=True)
def test_who_sends_a_request_byte_by_byte_is_read_after_the_others(run, size):
    """2,000 such clients, each read in 8 us, held a heartbeat up for 16 ms."""

    async def main():
        async with serving() as rig:
            clients, hub = await _connect_many(rig), rig.server.hub
            data = frame(HEARTBEAT, 0, 7, b"x" * size)
            for client in clients:
                client.send(data[:100])
            await rig.until(lambda: hub.received_bytes_total == 100 * MANY)
            light = await rig.connect()
            for at in range(100, 103):
                for client in clients:
                    client.send(data[at : at + 1])
                light.send(frame(HEARTBEAT))
                before = seen = hub.received_bytes_total
                most = 0
                while hub.received_bytes_total < before + MANY + len(frame(HEARTBEAT)):
                    await asyncio.sleep(0)
                    most = max(most, hub.received_bytes_total - seen)
                    seen = hub.received_bytes_total
                assert 0 < most <= 32 + len(frame(HEARTBEAT))
                assert await light.read()
            for client in clients:
                for at in range(103, len(data), 8_192):
                    client.send(data[at : at + 8_192])
                await asyncio.sleep(0)
            await rig.until(lambda: sum(len(one) for _, one, _ in rig.node.steps) == MANY + 3)
            for client in clients:
                client.close()

    run(main())


@pytest.mark.parametrize("run", ["asyncio", "uvloop"], indirect=True)
def test_who_reads_late_gets_little_in_an_iteration_of_the_loop(run):
    """The kernel once took megabytes at a time from such a client's answer: some milliseconds."""
    size, most = 20_000_000, 2 * 65_536

    async def main():
        async with serving() as rig:
            hub = rig.server.hub
            rig.node._handle = lambda turn, now, ticket, data: turn.reply(ticket, data, bytes(size))
            client = socket.create_connection(rig.server.address)
            client.setblocking(False)
            client.send(frame(HEARTBEAT))
            await rig.until(lambda: hub.unsent_bytes > 0)
            got, sent = 0, []
            while got < size + 8:
                with contextlib.suppress(BlockingIOError):
                    while data := client.recv(1 << 20):
                        got += len(data)
                before = hub.unsent_bytes
                await asyncio.sleep(0)
                sent.append(before - hub.unsent_bytes)
            assert 0 < max(sent) <= most
            assert hub.unsent_bytes == 0
            client.close()

    run(main())


def test_a_connection_that_has_ended_is_freed_at_once(run):
    """Not by the collector, which thousands of them would keep busy."""

    async def main():
        async with serving() as rig:
            client = await rig.connect()
            assert await client.ask(frame(HEARTBEAT))
            (connection,) = rig.server.hub.connections
            connection.memo = memo = _Memo()
            gone = weakref.ref(memo)
            del connection, memo
            gc.disable()
            try:
                client.close()
                await rig.until(lambda: gone() is None)
            finally:
                gc.enable()

    run(main())


class _Memo:
    """The memory of a connection, which goes with it."""


def test_what_fails_for_one_connection_is_no_matter_to_the_others(run, caplog):
    async def main():
        async with serving() as rig:

            def refused(session: object, reason: str) -> None:
                raise LookupError("of a bug")

            rig.server.refused = refused
            clients = [await rig.connect() for _ in range(9)]
            for number, client in enumerate(clients):
                impossible = struct.pack(">i", -5) + b"xxxx"
                client.send(impossible if number == 4 else frame(HEARTBEAT))
            assert await clients.pop(4).closed()
            for client in clients:
                assert (await client.read())[4:] == b"beat"
            assert len(rig.server.hub.connections) == 8

    with caplog.at_level(logging.ERROR, "asyncio"):
        run(main())
    assert any("of a bug" in str(record.exc_info) for record in caplog.records)


@contextmanager
def _no_more_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.open("/", os.O_RDONLY)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("run", ["asyncio", "uvloop"], indirect=True)
def test_who_comes_when_no_file_can_be_opened_is_served_later(run, caplog, monkeypatch):
    monkeypatch.setattr("pykcoord.server.accepting._PAUSE_SECONDS", PAUSE_SECONDS)

    async def main():
        async with serving() as rig:
            before = await rig.connect()
            late = socket.socket()
            late.setblocking(False)
            begun = asyncio.get_running_loop().time()
            with _no_more_files():
                late.connect_ex(rig.server.address)
                while len(caplog.records) < 2:  # it was tried again
                    assert await before.ask(frame(HEARTBEAT))
                assert len(rig.server.hub.connections) == 1
            seconds = asyncio.get_running_loop().time() - begun
            assert 2 <= len(caplog.records) <= 2 + seconds / PAUSE_SECONDS
            reader, writer = await asyncio.open_connection(sock=late)
            assert await Client(reader, writer).ask(frame(HEARTBEAT))

    with caplog.at_level(logging.ERROR, "pykcoord.server"):
        run(main())
    assert "Too many open files" in caplog.text
