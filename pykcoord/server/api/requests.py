"""The shapes of the requests that are served, from kio's message classes.

kio's own readers are not used on what clients send: they reserve what a count claims.
"""

from __future__ import annotations

import dataclasses
import typing
from collections import namedtuple
from functools import cache
from typing import Any

from pykcoord.server._requests import (
    BOOL,
    BYTES,
    INT8,
    INT16,
    INT32,
    INT64,
    MILLISECONDS,
    STRING,
    STRUCT,
    UUID_,
    Field,
    Shape,
)
from pykcoord.server.api.later import request_schema
from pykcoord.server.api.messages import parts_of

_KINDS = {
    "bool": BOOL,
    "int8": INT8,
    "int16": INT16,
    "int32": INT32,
    "int64": INT64,
    "timedelta_i32": MILLISECONDS,
    "uuid": UUID_,
    "string": STRING,
    "bytes": BYTES,
    "records": BYTES,
}


@cache
def request_shape(key: int, version: int) -> Shape:
    """How requests of an API and version are laid out. Their fields have kio's names."""
    return _shape(request_schema(key, version))


@cache
def _shape(schema: Any) -> Shape:
    hints = typing.get_type_hints(schema)
    plain: list[Field] = []
    tagged: dict[int, Field] = {}
    for field in dataclasses.fields(schema):
        tag = field.metadata.get("tag")
        described = _field(field, hints[field.name], is_tagged=tag is not None)
        if tag is None:
            plain.append(described)
        else:
            tagged[tag] = described
    in_order = [*plain, *(tagged[tag] for tag in sorted(tagged))]
    # The names are kio's, which no type checker can know here.
    kind: Any = namedtuple(schema.__name__, [field.name for field in in_order])  # type: ignore[misc]
    return Shape(plain, tagged, bool(schema.__flexible__), kind._make)


def _field(field: dataclasses.Field[Any], hint: Any, *, is_tagged: bool) -> Field:
    inner, is_array, is_nullable = parts_of(hint)
    kafka_type = field.metadata.get("kafka_type")
    if kafka_type is None:
        kind, shape = STRUCT, _shape(inner)
    else:
        kind, shape = _KINDS[kafka_type], None
    return Field(
        field.name,
        kind,
        is_array=is_array,
        # An absent tag is what is null of a tagged structure; of a string it is its own value.
        is_nullable=is_nullable and not (is_tagged and kind == STRUCT),
        shape=shape,
        default=None if field.default is dataclasses.MISSING else field.default,
    )
