"""Answers that clients do not read: what they take is bounded, whichever API was asked."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from support.kio_client import encode

from pykcoord.server import accepting, dispatch

from .conftest import Client, serving
from .test_node_apis import metadata

CLIENTS = 40
MOST_BYTES = 6_000_000


def deaf(address: tuple[str, int]) -> socket.socket:
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    client.connect(address)
    return client


@pytest.mark.parametrize(
    ("topics", "one_bytes"),
    [pytest.param(2, 500_000, id="kept"), pytest.param(5, 1_250_000, id="made each time")],
)
def test_long_answers_that_nobody_reads_are_bounded(
    run: Any, monkeypatch: pytest.MonkeyPatch, topics: int, one_bytes: int
) -> None:
    """One was given to each connection, of which there may be thousands."""
    if not accepting.IS_AVAILABLE:
        pytest.skip("what is not read is counted where the server reads its connections itself")
    monkeypatch.setattr(dispatch, "_UNSENT_BYTES", MOST_BYTES)
    asked = encode(3, 9, **metadata(None))

    async def main() -> None:
        async with serving(topics={f"t{n}": 10_000 for n in range(topics)}) as rig:
            hub = rig.server.hub

            async def answer(client: Client) -> int:
                return len(await client.ask(asked))

            # What the system takes of each answer is none of the server's memory.
            rig.server._listener._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
            reader = await rig.connect()
            assert await answer(reader) > one_bytes
            clients = [deaf(rig.server.address) for _ in range(CLIENTS)]
            for client in clients:
                client.sendall(asked)
            await rig.until(lambda: hub.refused_total > 0 or hub.unsent_bytes > 2 * MOST_BYTES)
            await rig.settled(lambda: (len(hub.in_flight), hub.unsent_bytes))
            assert MOST_BYTES < hub.unsent_bytes < MOST_BYTES + 2 * one_bytes
            assert hub.refused_total == CLIENTS - len(hub.connections) + 1
            assert await reader.ask(
                encode(18, 3, client_software_name="a", client_software_version="1")
            )
            for client in clients:
                client.close()
            await rig.until(lambda: hub.unsent_bytes == 0)
            assert await answer(reader) > one_bytes

    run(main())
