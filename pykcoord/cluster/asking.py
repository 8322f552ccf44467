"""How the controller of a cluster asks the other nodes: a line of JSON each way, over TCP.

    {"format": 1, "ask": [term, number, next_index, [[shard, epoch], ...]]}
    {"format": 1, "answer": [incarnation, number, term, journal_next, is_healthy, leaves, ...]}

Nothing depends on an earlier line, and nothing that was lost is sent again.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

__all__ = ["AskClient", "serve_asks"]

_FORMAT = 1
_LINE_BYTES = 4 * 1024 * 1024

Fields = tuple[Any, ...]


async def serve_asks(
    address: tuple[str, int], answer: Callable[[Fields], Fields]
) -> asyncio.Server:
    """Answer controllers at `address` (host, port; port 0 takes a free one). Raises OSError where
    the address cannot be had."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                asked = _fields(line, "ask")
                asked[3] = [tuple(one) for one in asked[3]]
                writer.write(_line("answer", answer(tuple(asked))))
                await writer.drain()
        except (ConnectionError, ValueError, LookupError, TypeError, asyncio.CancelledError):
            pass  # not a controller, or none that is there still
        finally:
            writer.close()

    return await asyncio.start_server(serve, *address, limit=_LINE_BYTES)


class AskClient:
    """The connection to one node. Connects when it is used."""

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, ask: Fields, timeout_seconds: float) -> Fields:
        """Raises ConnectionRefusedError where nobody listens, TimeoutError where no answer comes
        in time, OSError or ValueError for all else."""
        try:
            async with asyncio.timeout(timeout_seconds):
                return await self._ask(ask)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection: an answer that comes late must not be taken for the next."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    async def _ask(self, ask: Fields) -> Fields:
        was_connected = self._streams is not None
        if self._streams is None:
            self._streams = await asyncio.open_connection(*self._address, limit=_LINE_BYTES)
        reader, writer = self._streams
        try:
            writer.write(_line("ask", ask))
            line = await reader.readline()
        except ConnectionError:
            line = b""
        if line:
            answer = _fields(line, "answer")
            answer[6] = [tuple(one) for one in answer[6]]
            return tuple(answer)
        self.close()
        if was_connected:  # it ended since; connecting again shows whether the node is gone
            return await self._ask(ask)
        raise ConnectionResetError(f"{self._address} closed the connection")


def _line(name: str, fields: Fields) -> bytes:
    return json.dumps({"format": _FORMAT, name: fields}).encode() + b"\n"


def _fields(line: bytes, name: str) -> list[Any]:
    said = json.loads(line)
    if said["format"] != _FORMAT:
        raise ValueError(f"format {said['format']} is not {_FORMAT}")
    fields: list[Any] = said[name]
    return fields
