"""Between kio's message classes (one per version) and plain values.

A handler answers with the fields of every version; `build` keeps those that a version has.
"""

from __future__ import annotations

import dataclasses
import datetime
import struct
import typing
from collections.abc import Callable, Mapping
from functools import cache
from io import BytesIO
from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

NO_THROTTLE = datetime.timedelta(0)
NONE = ErrorCode.none

Fields = Mapping[str, Any]


@cache
def request_reader(key: int, version: int) -> Callable[[bytes, int], tuple[Any, int]]:
    """(frame, offset of the body) -> (request, size). Raises what kio raises for bad bytes."""
    return typing.cast(
        Callable[[bytes, int], tuple[Any, int]],
        entity_reader(load_request_schema(key, version)),
    )


def request_is_flexible(key: int, version: int) -> bool:
    """Whether request headers of this version end with tags (KIP-482)."""
    return bool(load_request_schema(key, version).__flexible__)


def encode_response(key: int, version: int, correlation_id: int, fields: Fields) -> bytes:
    """A whole response frame, with its length."""
    body = encode_response_body(key, version, fields)
    return struct.pack(">ii", 4 + len(body), correlation_id) + body


def encode_response_body(key: int, version: int, fields: Fields) -> bytes:
    """What follows the correlation id: the header's tags, if it has any, and the body."""
    schema, write = _response_writer(key, version)
    buffer = BytesIO()
    # ApiVersions answers with header v0 in all versions: its client knows nothing yet.
    if schema.__flexible__ and key != 18:
        buffer.write(b"\x00")
    write(buffer, build(schema, {"throttle_time": NO_THROTTLE, **fields}))
    return buffer.getvalue()


def build(schema: Any, fields: Fields) -> Any:
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
def _response_writer(key: int, version: int) -> tuple[Any, Callable[[BytesIO, Any], None]]:
    schema = load_response_schema(key, version)
    return schema, typing.cast(Callable[[BytesIO, Any], None], entity_writer(schema))


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
