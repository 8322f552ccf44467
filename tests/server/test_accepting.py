"""What fails for one connection that is accepted, fails for this one alone."""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
import socket
from collections.abc import Callable
from typing import Any

import pytest
from support.scripted_node import HEARTBEAT

from .conftest import frame, serving


class Failing:
    """A listening socket of which the system has errors to tell before it accepts."""

    def __init__(self, of: socket.socket, *errors: int) -> None:
        self._socket = of
        self._errors = [*errors]

    def accept(self) -> tuple[socket.socket, Any]:
        if self._errors:
            number = self._errors.pop(0)
            raise OSError(number, os.strerror(number))
        return self._socket.accept()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)


@pytest.fixture
def polled(run: Callable[[Any], Any], request: pytest.FixtureRequest) -> Callable[[Any], Any]:
    if "unpolled" in request.node.name:
        pytest.skip("the loop accepts, and not the listener")
    return run


def test_an_error_of_the_network_does_not_end_the_server(polled):
    """EPERM of a firewall's rule, as accept(2) has it, ended the server for everybody."""

    async def main():
        async with serving() as rig:
            old = await rig.connect()
            listener = rig.server._listener
            listener._socket = Failing(listener._socket, errno.EPERM, errno.EHOSTUNREACH)
            new = await rig.connect()
            assert await new.ask(frame(HEARTBEAT))
            assert await old.ask(frame(HEARTBEAT))
            assert not listener._socket._errors

    polled(main())


def test_few_are_accepted_in_an_iteration_of_the_loop(polled):
    """32 with random bytes, and their ends, took 3 ms."""

    async def main():
        async with serving() as rig:
            clients = [socket.create_connection(rig.server.address) for _ in range(40)]
            counts = [0]
            while counts[-1] < len(clients):
                await asyncio.sleep(0)
                counts.append(len(rig.server.hub.connections))
            most = max(now - before for before, now in itertools.pairwise(counts))
            assert 0 < most <= 8
            for client in clients:
                client.close()

    polled(main())


def test_after_any_other_error_the_next_attempt_is_made_later(polled, monkeypatch, caplog):
    monkeypatch.setattr("pykcoord.server.accepting._PAUSE_SECONDS", 0.05)

    async def main():
        async with serving() as rig:
            listener = rig.server._listener
            listener._socket = Failing(listener._socket, errno.EINVAL)
            assert await (await rig.connect()).ask(frame(HEARTBEAT))

    polled(main())
    lines = [record.getMessage() for record in caplog.records]
    assert sum("no connection can be accepted, the next attempt is in" in one for one in lines) == 1


def test_a_connection_that_cannot_be_served_is_closed_alone(polled):
    async def main():
        async with serving() as rig:
            listener = rig.server._listener
            make, failures = listener._new_connection, [MemoryError()]

            def new_connection():
                if failures:
                    raise failures.pop()
                return make()

            listener._new_connection = new_connection
            assert await (await rig.connect()).closed()
            assert not failures
            assert await (await rig.connect()).ask(frame(HEARTBEAT))
            await asyncio.sleep(0)
            assert rig.server._runtime.is_running

    polled(main())


def test_a_client_that_is_gone_without_a_word_is_noticed(polled):
    """A Fetch may wait for days, and a connection with a request in flight is never idle."""

    async def main():
        async with serving(socket_receive_buffer_bytes=50_000) as rig:
            listener = rig.server._listener
            serve, accepted = listener._serve, []
            listener._serve = lambda of: (accepted.append(of), serve(of))
            assert await (await rig.connect()).ask(frame(HEARTBEAT))
            assert accepted[0].getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            assert accepted[0].getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) in (50_000, 100_000)

    polled(main())
