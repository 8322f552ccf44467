"""Frames through the whole server, one after another, and the checks after each.

The server is the real one: connections, loop, native node, dispatch. The outcome of a frame depends
only on the frames before it, so a saved list of frames repeats it.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import struct
import sys
import zlib
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from support.kio_client import decode

from fuzz.memory import Client, ForgetfulLog, Time
from pykcoord._native import Node
from pykcoord.config import Config
from pykcoord.engine import tell_topics
from pykcoord.leading import FixedShards
from pykcoord.runtime import Runtime
from pykcoord.server import Server, TopicCatalogue

_SHARDS = 2
_TOPICS = {"orders": 12, "payments": 1}
_CONFIG = {"group_initial_rebalance_delay_ms": 0, "group_min_session_timeout_ms": 50}
# Fetch is a long poll; JoinGroup and SyncGroup wait for other members.
_MAY_WAIT = frozenset({1, 11, 14})
_SPINS_UNTIL_PARKED = 25
_SPINS_UNTIL_PAUSE = 300
_MOST_PARKED = 8
_API_VERSIONS, _HIGHEST_API_VERSIONS = 18, 4
# From _SPINS_UNTIL_PAUSE on each takes a millisecond at least. No clock decides: at low priority
# beside other work a long answer was once taken for a hang.
_HANGS_AFTER_SPINS = 60_000
_DECODED_BYTES = 65_536
_PAUSES_MS = (*(0,) * 40, 1, 100, 10_000, 600_000)
# Calls of functions on the loop's thread: for one frame in all, and without a break.
# The first request of a version has its schema imported and compiled.
MOST_CALLS = (40_000, 12)  # for any frame, and for each of its bytes
MOST_CALLS_AT_ONCE = 30_000


class Finding(Exception):
    """A check that failed; the text says which."""


@dataclass
class Tally:
    """How many frames had which outcome, and the most calls that one made at once."""

    frames: int = 0
    answered: int = 0
    refused: int = 0
    waited: int = 0
    calls_at_once: int = 0
    calls_per_byte: float = 0.0
    longest_reply: int = 0


class Calls:
    """Counts calls of functions, Python's and C's, on this thread while it is switched on."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, frame: Any, event: str, argument: Any) -> None:
        if event in ("call", "c_call"):
            self.count += 1


class _Errors(logging.Handler):
    """Keeps what is logged as an error."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(self.format(record))


@dataclass
class Session:
    """A server, and the frames that it got so far."""

    server: Server
    runtime: Runtime
    time: Time
    errors: _Errors
    calls: Calls = field(default_factory=Calls)
    tally: Tally = field(default_factory=Tally)
    _refusals: list[str] = field(default_factory=list)
    _parked: list[tuple[bytes, Client]] = field(default_factory=list)

    async def send(self, frame: bytes) -> bytes | None:
        """One frame on a connection of its own; the reply, or None. Raises Finding."""
        luck = zlib.crc32(frame)
        pause_ms = _PAUSES_MS[luck % len(_PAUSES_MS)]
        if pause_ms:
            self.time.advance(pause_ms)
            self.runtime.wake()
        client = Client(self.server.hub)
        self._refusals.clear()
        self.tally.frames += 1
        sys.setprofile(self.calls)
        try:
            client.send(frame, parts=1 + luck % 3)
            await self._settle(client, frame)
        finally:
            sys.setprofile(None)
        return self._judge(client, frame)

    async def _settle(self, client: Client, frame: bytes) -> None:
        """Until the frame is answered, refused, or waits as it may."""
        before = in_all = self.calls.count
        key = struct.unpack_from(">h", frame)[0] if len(frame) >= 2 else -1
        spins = 0
        while client.reply is None and not client.is_closed:
            if key in _MAY_WAIT and spins >= _SPINS_UNTIL_PARKED:
                break
            await asyncio.sleep(0 if spins < _SPINS_UNTIL_PAUSE else 0.001)
            spins += 1
            at_once, before = self.calls.count - before, self.calls.count
            self.tally.calls_at_once = max(self.tally.calls_at_once, at_once)
            if at_once > MOST_CALLS_AT_ONCE:
                raise Finding(f"{at_once} calls without a break for {len(frame)} bytes")
            if spins > _HANGS_AFTER_SPINS:
                raise Finding(f"no answer in {spins} rounds of the loop")
        in_all = self.calls.count - in_all
        self.tally.calls_per_byte = max(self.tally.calls_per_byte, in_all / (100 + len(frame)))
        most = MOST_CALLS[0] + MOST_CALLS[1] * len(frame)
        if in_all > most:
            raise Finding(f"{in_all} calls for {len(frame)} bytes; at most {most}")

    def _judge(self, client: Client, frame: bytes) -> bytes | None:
        if self.errors.texts:
            raise Finding(f"an error was logged: {self.errors.texts[0]}")
        reply = client.reply
        if reply is not None:
            self.tally.answered += 1
            self.tally.longest_reply = max(self.tally.longest_reply, len(reply))
            _check_reply(frame, reply)
            client.leave()
        elif client.is_closed:
            self.tally.refused += 1
            if not self._refusals or self._refusals[-1].startswith("failed"):
                raise Finding(f"closed, and the reason is {self._refusals or 'not told'}")
        else:
            self.tally.waited += 1
            self._parked.append((frame, client))
            if len(self._parked) > _MOST_PARKED:
                self._parked.pop(0)[1].leave()
        return reply

    def refused(self, session: object, reason: str) -> None:
        """The hub calls this for each connection that it closes."""
        self._refusals.append(reason)

    async def end(self) -> None:
        """Stop the server. All that waits must be answered or closed, and nothing may be left."""
        await self.server.stop(grace_seconds=5)
        for _, client in self._parked:
            if client.reply is None and not client.is_closed:
                raise Finding("a request that waited was left alone when the server stopped")
        hub = self.server.hub
        if hub.in_flight or hub.connections:
            raise Finding(f"left over: {len(hub.in_flight)} requests, {hub.connections}")
        if self.errors.texts:
            raise Finding(f"an error was logged: {self.errors.texts[0]}")


def _check_reply(frame: bytes, reply: bytes) -> None:
    (size,) = struct.unpack_from(">i", reply)
    if size != len(reply) - 4 or reply[4:8] != frame[4:8]:
        raise Finding(f"a reply of {len(reply)} bytes with the length {size} to another request")
    key, version = struct.unpack_from(">hh", frame)
    if key == _API_VERSIONS and not 0 <= version <= _HIGHEST_API_VERSIONS:
        version = 0  # KIP-511
    if len(reply) <= _DECODED_BYTES:
        try:
            decode(key, version, reply[4:])
        except Exception as error:
            raise Finding(f"a reply to {key} v{version} that cannot be read: {error!r}") from error


@asynccontextmanager
async def session() -> AsyncIterator[Session]:
    """A new server in this process."""
    node = Node(Config(**_CONFIG).native(), _SHARDS, bytes(32))
    now = Time()
    runtime = Runtime(node, ForgetfulLog(_SHARDS), now.clock)
    FixedShards(runtime).lead()
    catalogue = TopicCatalogue(dict(_TOPICS))
    tell_topics(runtime, catalogue)
    server = Server(
        Config(**_CONFIG), runtime, catalogue, cluster_id="fuzz", listen=("127.0.0.1", 0)
    )
    errors = _Errors()
    opened = Session(server, runtime, now, errors)
    server.refused = opened.refused  # type: ignore[method-assign]
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: errors.texts.append(str(context)))
    logger = logging.getLogger("pykcoord")
    logger.addHandler(errors)
    await server.start()
    try:
        yield opened
    finally:
        await server.stop(grace_seconds=5)
        logger.removeHandler(errors)


async def replay(frames: Iterable[bytes]) -> Tally:
    """All frames through a new server. Raises Finding."""
    async with session() as opened:
        for frame in frames:
            await opened.send(frame)
        await opened.end()
        return opened.tally


def resident_bytes() -> int:
    """The memory of this process, after a collection."""
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096
