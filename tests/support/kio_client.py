"""Requests and responses of every version as kio's message classes, over a raw connection."""

from __future__ import annotations

import struct
from io import BytesIO
from typing import Any

from kio.serial import entity_reader, entity_writer

from pykcoord.server.api.later import request_schema, response_schema
from pykcoord.virtual import build

__all__ = ["ask", "build", "decode", "encode"]


def encode(key: int, version: int, correlation_id: int = 7, /, **fields: Any) -> bytes:
    """A whole request frame; fields that the version lacks are left out."""
    schema = request_schema(key, version)
    buffer = BytesIO()
    buffer.write(struct.pack(">hhih", key, version, correlation_id, 3) + b"cli")
    if schema.__flexible__:
        buffer.write(b"\x00")
    entity_writer(schema)(buffer, build(schema, fields))
    return struct.pack(">i", len(buffer.getvalue())) + buffer.getvalue()


def decode(key: int, version: int, reply: bytes) -> Any:
    """The response; asserts that nothing is left over."""
    schema = response_schema(key, version)
    start = 5 if schema.__flexible__ and key != 18 else 4
    response, size = entity_reader(schema)(reply, start)
    assert start + size == len(reply)
    return response


async def ask(client: Any, key: int, version: int, /, **fields: Any) -> Any:
    return decode(key, version, await client.ask(encode(key, version, **fields)))
