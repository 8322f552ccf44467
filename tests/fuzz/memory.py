"""Replacements for sockets, disk and time, so that a round of frames is the same each time."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Sequence
from typing import Any

from pykcoord.clock import Clock
from pykcoord.log.protocol import Append, Taken
from pykcoord.server._connection import Connection, Hub
from pykcoord.server.listener import peer_of


class Time:
    """A clock that stands still until it is told to go on."""

    def __init__(self) -> None:
        self._ns = 1_700_000_000_000_000_000
        self.clock = Clock(lambda: self._ns, lambda: self._ns)

    def advance(self, milliseconds: int) -> None:
        self._ns += milliseconds * 1_000_000


class ForgetfulLog:
    """Takes every append as durable at once, and keeps nothing: logs are fuzzed elsewhere."""

    def __init__(self, shards: int) -> None:
        self.shards = shards
        self._next_offsets = [0] * shards

    def take(self, shard: int, new_loader: Callable[[], Any]) -> Taken:
        return Taken(new_loader(), self._next_offsets[shard], 0)

    def release(self, shard: int) -> None:
        raise AssertionError("no append fails here")

    def append(self, appends: Sequence[Append], done: Callable[..., None]) -> None:
        committed: dict[int, int] = {}
        for append in appends:
            self._next_offsets[append.shard] = append.base_offset + append.record_count
            committed[append.shard] = self._next_offsets[append.shard]
        done([*committed.items()], [])

    def close(self) -> None:
        pass


class Client:
    """One connection, whose transport is memory. `refusal` is why the server closed it."""

    def __init__(self, hub: Hub) -> None:
        self.received = bytearray()
        self.refusal: str | None = None
        self._closing = False
        self._ended = False
        self._connection = Connection(hub, peer_of)
        self._connection.connection_made(self)

    def send(self, frame: bytes, *, parts: int = 1) -> None:
        """A frame without its length, in one or several pieces."""
        data = struct.pack(">i", len(frame)) + frame
        step = max(1, -(-len(data) // parts))
        for at in range(0, len(data), step):
            if not self._closing:
                self._connection.data_received(data[at : at + step])

    def leave(self) -> None:
        """The client goes away."""
        if not self._ended:
            self._ended = True
            self._closing = True
            self._connection.connection_lost(None)

    @property
    def reply(self) -> bytes | None:
        """The whole reply with its length, once it is there."""
        if len(self.received) < 4:
            return None
        (size,) = struct.unpack_from(">i", self.received)
        return bytes(self.received) if len(self.received) >= 4 + size else None

    @property
    def is_closed(self) -> bool:
        return self._closing

    # The transport of a connection, as far as it is used.

    def get_extra_info(self, name: str) -> Any:
        return ("127.0.0.1", 1) if name == "peername" else None

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: bytes) -> None:
        self.received += data

    def is_closing(self) -> bool:
        return self._closing

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            asyncio.get_running_loop().call_soon(self.leave)

    abort = close
