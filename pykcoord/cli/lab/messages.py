"""Messages in a broker of Kafka 0.8.2.2: Produce v0 and Fetch v0, which today's clients lack.

Source: Kafka's guide to the protocol, versions of 0.8.
"""

from __future__ import annotations

import asyncio
import struct
import zlib

_PRODUCE, _FETCH = 0, 1
_MAX_BYTES = 1 << 20


class Broker:
    """A connection to a broker. Not for several tasks at a time."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._number = 0

    async def connect(self) -> None:
        """Connect. Raises OSError."""
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()

    async def produce(self, topic: str, partitions: int, value: bytes) -> None:
        """One message to each partition."""
        body = struct.pack(">hii", 1, 5_000, 1) + _text(topic) + struct.pack(">i", partitions)
        message = struct.pack(">bbi", 0, 0, -1) + struct.pack(">i", len(value)) + value
        message = struct.pack(">I", zlib.crc32(message)) + message
        entry = struct.pack(">qi", 0, len(message)) + message
        for partition in range(partitions):
            body += struct.pack(">ii", partition, len(entry)) + entry
        await self._ask(_PRODUCE, body)

    async def fetch(self, topic: str, offsets: dict[int, int]) -> dict[int, list[int]]:
        """Partition to the offsets of the messages that are there from an offset on."""
        body = struct.pack(">iiii", -1, 50, 1, 1) + _text(topic) + struct.pack(">i", len(offsets))
        for partition, offset in offsets.items():
            body += struct.pack(">iqi", partition, offset, _MAX_BYTES)
        answer = await self._ask(_FETCH, body)
        (length,) = struct.unpack_from(">h", answer, 4)
        (count,) = struct.unpack_from(">i", answer, 6 + length)
        at = 10 + length
        found: dict[int, list[int]] = {}
        for _ in range(count):
            partition, _, _, size = struct.unpack_from(">ihqi", answer, at)
            at += 18
            found[partition] = [
                one for one in _offsets(answer[at : at + size]) if one >= offsets[partition]
            ]
            at += size
        return found

    async def _ask(self, api: int, body: bytes) -> bytes:
        self._number += 1
        frame = struct.pack(">hhi", api, 0, self._number) + _text("lab") + body
        self._writer.write(struct.pack(">i", len(frame)) + frame)
        (size,) = struct.unpack(">i", await self._reader.readexactly(4))
        return (await self._reader.readexactly(size))[4:]


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def _offsets(messages: bytes) -> list[int]:
    """Of whole messages; the last may be cut off."""
    found, at = [], 0
    while at + 12 <= len(messages):
        offset, size = struct.unpack_from(">qi", messages, at)
        if at + 12 + size > len(messages):
            break
        found.append(offset)
        at += 12 + size
    return found
