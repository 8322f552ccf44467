"""Frames of requests and answers, for the server's side of APIs that brokers and their clients ask
a node. Requests are read by the server's own bounded reader, answers are kio's entities."""

from __future__ import annotations

import dataclasses
import io
import typing
from datetime import timedelta
from functools import cache
from typing import Any

from kio.index import load_response_schema
from kio.serial import entity_writer
from kio.static.primitive import i32Timedelta

from pykcoord.protocol import body_at
from pykcoord.server._requests import Walk
from pykcoord.server.api.requests import request_shape

__all__ = ["NO_THROTTLE", "decode", "encode", "nested_of", "response_class"]

# Those of all arrays of a request together.
_REQUEST_ELEMENTS = 250_000
NO_THROTTLE = i32Timedelta.parse(timedelta(0))


@cache
def response_class(key: int, version: int) -> Any:
    """kio's class of an API's answer."""
    return load_response_schema(key, version)


def decode(key: int, version: int, frame: bytes) -> Any:
    """The request in a frame, by kio's names. Raises MalformedError, ValueError."""
    shape = request_shape(key, version)
    walk = Walk(shape, frame, body_at(frame, flexible=shape.is_flexible), _REQUEST_ELEMENTS)
    while not walk.go_on(_REQUEST_ELEMENTS):
        pass
    return walk.read()


def encode(answer: Any, correlation_id: bytes) -> bytes:
    """The frame of an answer, with its length in front. `correlation_id`: its 4 bytes."""
    kind = type(answer)
    out = io.BytesIO()
    out.write(correlation_id)
    if kind.__header_schema__.__flexible__:
        out.write(b"\0")
    entity_writer(kind)(out, answer)
    return framed(out.getvalue())


def framed(answer: bytes) -> bytes:
    """With its length in front."""
    return len(answer).to_bytes(4, "big") + answer


@cache
def nested_of(kind: Any, name: str) -> Any:
    """The class of a structure that a field of `kind` holds, or of an array's elements."""
    hint = typing.get_type_hints(kind)[name]
    assert name in {field.name for field in dataclasses.fields(kind)}
    while typing.get_args(hint):
        hint = next(of for of in typing.get_args(hint) if of not in (type(None), ...))
    return hint
