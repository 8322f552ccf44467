"""A server in the test's own loop, over a scripted node or the real one, and a raw client."""

from __future__ import annotations

import asyncio
import dataclasses
import struct
from collections.abc import Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvloop
from support.memory_log import MemoryLog
from support.scripted_node import ScriptedNode

from pykcoord.clock import Clock
from pykcoord.config import Config
from pykcoord.engine import tell_topics
from pykcoord.leading import FixedShards
from pykcoord.runtime import Runtime
from pykcoord.server import Server, TopicCatalogue
from pykcoord.server.metrics import ServerMetrics

# Requests that are polled together: KC_AT_ONCE of _polling.pyx.
MOST_OF_A_TURN = 256
_SETTLED_ROUNDS = 50


@pytest.fixture(params=["asyncio", "uvloop", "asyncio-unpolled", "uvloop-unpolled"])
def run(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[Awaitable[Any]], Any]]:
    """Runs a coroutine to its end, within two minutes: on each kind of loop, and as on a system
    where the loop itself reads every connection."""
    loop, _, unpolled = request.param.partition("-")
    factory = uvloop.new_event_loop if loop == "uvloop" else asyncio.new_event_loop
    if unpolled:
        monkeypatch.setattr("pykcoord.server.accepting.IS_AVAILABLE", False)

    async def bounded(main: Awaitable[Any]) -> Any:
        async with asyncio.timeout(120):
            return await main

    with asyncio.Runner(loop_factory=factory) as runner:
        yield lambda main: runner.run(bounded(main))


class Client:
    """One raw connection: bytes out, frames in."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def read(self) -> bytes:
        """The next reply, without its length."""
        (size,) = struct.unpack(">i", await self.reader.readexactly(4))
        return await self.reader.readexactly(size)

    async def ask(self, data: bytes) -> bytes:
        self.send(data)
        return await self.read()

    async def closed(self) -> bool:
        """Whether the server closes the connection without a further reply."""
        try:
            return await self.reader.read(1) == b""
        except ConnectionError:
            return True

    def close(self) -> None:
        self.writer.close()


@dataclasses.dataclass
class Rig:
    server: Server
    node: Any
    log: MemoryLog
    catalogue: TopicCatalogue
    runtime: Runtime
    metrics: ServerMetrics

    async def connect(self) -> Client:
        return Client(*await asyncio.open_connection(*self.server.address))

    async def until(self, condition: Callable[[], Any]) -> None:
        """Let the loop run until `condition()`: what is awaited happens within it."""
        while not condition():
            await asyncio.sleep(0.001)

    async def settled(self, value: Callable[[], Any]) -> Any:
        """`value()` once it stays the same for as long as the loop goes round fifty times: what is
        not to rise any more, after `until` has seen it rise as far as it must."""
        rounds, last = 0, value()
        while rounds < _SETTLED_ROUNDS:
            await asyncio.sleep(0)
            rounds = rounds + 1 if value() == last else 0
            last = value()
        return last


@asynccontextmanager
async def serving(
    node: Any = None,
    *,
    topics: dict[str, int] | None = None,
    log: MemoryLog | None = None,
    server_options: dict[str, Any] | None = None,
    **config: int,
) -> Any:
    node = node if node is not None else ScriptedNode()
    log = log if log is not None else MemoryLog(getattr(node, "shards", 1))
    metrics = ServerMetrics()
    runtime = Runtime(node, log, Clock(), metrics)
    FixedShards(runtime).lead()
    catalogue = TopicCatalogue(topics or {"orders": 12})
    tell_topics(runtime, catalogue)
    options = {"listen": ("127.0.0.1", 0), "cluster_id": "test-cluster", **(server_options or {})}
    server = Server(Config(**config), runtime, catalogue, metrics=metrics, **options)
    await server.start()
    try:
        yield Rig(server, node, log, catalogue, runtime, metrics)
    finally:
        await server.stop(grace_seconds=2)


def frame(key: int, version: int = 0, correlation_id: int = 7, body: bytes = b"") -> bytes:
    """A request with a header that is not flexible, with its length."""
    header = struct.pack(">hhih", key, version, correlation_id, 3) + b"cli"
    return struct.pack(">i", len(header) + len(body)) + header + body
