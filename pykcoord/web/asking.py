"""Requests to nodes over TCP: one connection to each node, used by one request at a time."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pykcoord.web.source import NodeAddress

__all__ = ["Connections"]

_LENGTH = struct.Struct(">i")
_CONNECT_SECONDS = 3.0
_ANSWER_SECONDS = 15.0
# Two questions at once: a long answer holds no other up.
_LINES = 2
_MOST_BYTES = 1 << 30
_PART_BYTES = 256 << 10


class Connections:
    """Connections to the nodes, opened when they are needed. On one loop only."""

    def __init__(self) -> None:
        self._free: dict[tuple[str, int], list[_Line]] = {}
        self._gates: dict[tuple[str, int], asyncio.Semaphore] = {}

    async def ask(self, node: NodeAddress, frame: bytes) -> bytes:
        """The response frame. Raises OSError, TimeoutError among them, where there is none."""
        address = (node.host, node.port)
        gate = self._gates.setdefault(address, asyncio.Semaphore(_LINES))
        async with gate, self._line(address) as line:
            return await line.ask(frame)

    async def parts(self, node: NodeAddress, frame: bytes) -> AsyncIterator[bytes]:
        """The same as it comes, in parts."""
        address = (node.host, node.port)
        gate = self._gates.setdefault(address, asyncio.Semaphore(_LINES))
        async with gate, self._line(address) as line:
            async for part in line.parts(frame):
                yield part

    def close(self) -> None:
        """Close all of them."""
        for lines in self._free.values():
            for line in lines:
                line.close()
        self._free.clear()

    @asynccontextmanager
    async def _line(self, address: tuple[str, int]) -> AsyncIterator[_Line]:
        free = self._free.setdefault(address, [])
        while free and free[-1].is_gone:
            free.pop().close()
        line = free.pop() if free else await _Line.to(address)
        try:
            yield line
        except BaseException:
            line.close()
            raise
        free.append(line)


class _Line:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def to(cls, address: tuple[str, int]) -> _Line:
        async with asyncio.timeout(_CONNECT_SECONDS):
            return cls(*await asyncio.open_connection(*address))

    @property
    def is_gone(self) -> bool:
        """The node has closed it, as it does with idle ones."""
        return self._reader.at_eof() or self._writer.is_closing()

    async def ask(self, frame: bytes) -> bytes:
        async with asyncio.timeout(_ANSWER_SECONDS):
            return b"".join([part async for part in self.parts(frame)])

    async def parts(self, frame: bytes) -> AsyncIterator[bytes]:
        self._writer.write(_LENGTH.pack(len(frame)) + frame)
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                (left,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
        except asyncio.IncompleteReadError as error:
            raise ConnectionResetError("the node closed the connection") from error
        if not 0 <= left <= _MOST_BYTES:
            raise OSError(f"an answer of {left} bytes")
        while left:
            async with asyncio.timeout(_ANSWER_SECONDS):
                part = await self._reader.read(min(left, _PART_BYTES))
            if not part:
                raise ConnectionResetError("the node closed the connection")
            left -= len(part)
            yield part

    def close(self) -> None:
        self._writer.close()
