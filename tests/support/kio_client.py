"""Requests and responses of every version as kio's message classes, over a raw connection."""

from __future__ import annotations

import dataclasses
import struct
import typing
from collections.abc import Mapping
from functools import cache
from io import BytesIO
from typing import Any

from kio.serial import entity_reader, entity_writer

from pykcoord.server.api.later import request_schema, response_schema


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


def build(schema: Any, fields: Mapping[str, Any]) -> Any:
    """A kio entity of the values in `fields` that its version has; missing ones take defaults."""
    values = {}
    for name, nested, many in _plan(schema):
        if name not in fields:
            continue
        value = fields[name]
        if nested is None or value is None:
            values[name] = value
        elif many:
            values[name] = tuple(build(nested, item) for item in value)
        else:
            values[name] = build(nested, value)
    return schema(**values)


@cache
def _plan(schema: Any) -> tuple[tuple[str, type[Any] | None, bool], ...]:
    """Per field: its name, the class of nested structures, whether it is an array of them."""
    hints = typing.get_type_hints(schema)
    return tuple((f.name, *_nested(hints[f.name])) for f in dataclasses.fields(schema))


def _nested(hint: Any) -> tuple[type[Any] | None, bool]:
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) is tuple:
        return (arguments[0], True) if _is_entity(arguments[0]) else (None, False)
    for argument in arguments:  # X | None
        found = _nested(argument)
        if found[0] is not None:
            return found
    return (hint, False) if _is_entity(hint) else (None, False)


def _is_entity(hint: Any) -> bool:
    return isinstance(hint, type) and dataclasses.is_dataclass(hint)
