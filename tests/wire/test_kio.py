"""The codec against kio, whose message classes are generated from Kafka's own schemas: random
messages of every owned API in every served version, written by kio, must come back unchanged."""

from __future__ import annotations

import dataclasses
import datetime
import io
import random
import types
import typing
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.serial import entity_writer
from kio.static.constants import EntityType

from pykcoord import _native
from pykcoord.server.api.later import request_schema, response_schema

#: API key to the versions served.
OWNED = {
    8: range(2, 11),
    9: range(1, 11),
    11: range(10),
    12: range(5),
    13: range(6),
    14: range(6),
    15: range(7),
    16: range(6),
    42: range(4),
    47: range(1),
}
MESSAGES = 40
WORDS = ["", "g", "my-group", "группа", "x" * 126, "x" * 127, "x" * 20_000]
CODES = [ErrorCode(code) for code in (0, -1, 25, 79)]


def messages() -> list[Any]:
    return [
        pytest.param(api_key, version, kind, id=f"{api_key}-v{version}-{kind.name}")
        for api_key, versions in OWNED.items()
        for version in versions
        for kind in (EntityType.request, EntityType.response)
    ]


@pytest.mark.parametrize(("api_key", "version", "kind"), messages())
def test_messages_of_kio_come_back_unchanged(api_key: int, version: int, kind: EntityType) -> None:
    load = request_schema if kind is EntityType.request else response_schema
    for seed in range(MESSAGES):
        source = random.Random(f"{api_key} {version} {kind} {seed}")
        message = usual(build(load(api_key, version), source), version)
        frame = write(message, kind, version)
        again = _native.reencode(frame, api_key, version, kind is EntityType.request)
        assert again.hex() == frame.hex(), message


def write(message: Any, kind: EntityType, version: int) -> bytes:
    out = io.BytesIO()
    header = message.__header_schema__
    if kind is EntityType.request:
        head = header(
            request_api_key=message.__api_key__,
            request_api_version=version,
            correlation_id=7,
            client_id="cli",
        )
    else:
        head = header(correlation_id=7)
    entity_writer(header)(out, head)
    entity_writer(type(message))(out, message)
    return out.getvalue()


def usual(message: Any, version: int) -> Any:
    """The message without what kcoord does not keep, though the schema would allow it."""
    name = type(message).__name__
    if name == "JoinGroupResponse" and version >= 7 and message.protocol_name == "":
        return dataclasses.replace(message, protocol_name=None)
    if name == "OffsetFetchResponse" and version >= 8:
        groups = tuple(
            dataclasses.replace(group, topics=()) if group.error_code.value else group
            for group in message.groups
        )
        return dataclasses.replace(message, groups=groups)
    if name == "OffsetFetchResponse" and version >= 2 and message.error_code.value:
        return dataclasses.replace(message, topics=())
    if name == "_DeleteGroupsResponse3":
        results = tuple(
            dataclasses.replace(result, error_message=None) for result in message.results
        )
        return dataclasses.replace(message, results=results)
    if name == "OffsetFetchRequest" and version >= 8 and not message.groups:
        return dataclasses.replace(message, require_stable=False)
    return message


def build(schema: type, source: random.Random) -> Any:
    """A message with random values in all its fields."""
    hints = typing.get_type_hints(schema)
    return schema(
        **{
            field.name: value(field.name, hints[field.name], field.metadata, source)
            for field in dataclasses.fields(schema)
        }
    )


def value(name: str, hint: Any, metadata: Any, source: random.Random) -> Any:
    if name == "throttle_time":
        return datetime.timedelta(0)
    if name in ("group_state", "group_type"):
        return source.choice(["Empty", "Stable", "Dead", "classic"])
    if name == "authorized_operations":
        return 3400
    kafka_type = metadata.get("kafka_type")
    if isinstance(hint, types.UnionType):
        # kio writes the zero id for None; metadata is nullable only by the schema.
        nullable = kafka_type != "uuid" and name != "metadata"
        if nullable and source.random() < 0.3:
            return None
        hint = next(option for option in typing.get_args(hint) if option is not type(None))
    if typing.get_origin(hint) is tuple:
        element = typing.get_args(hint)[0]
        count = source.choice([0, 1, 2, 130 if kafka_type == "int32" else 3])
        return tuple(value("", element, metadata, source) for _ in range(count))
    if dataclasses.is_dataclass(hint):
        return build(hint, source)
    return VALUES[kafka_type](source)


def milliseconds(bits: int) -> Callable[[random.Random], datetime.timedelta]:
    def draw(source: random.Random) -> datetime.timedelta:
        return datetime.timedelta(milliseconds=source.randrange(-1, 2**bits))

    return draw


VALUES: dict[str, Callable[[random.Random], Any]] = {
    "bool": lambda source: source.random() < 0.5,
    "bytes": lambda source: source.choice([b"", b"\x00\xff", bytes(300)]),
    "error_code": lambda source: source.choice(CODES),
    "int32": lambda source: source.randrange(-(2**31), 2**31),
    "int64": lambda source: source.randrange(-(2**63), 2**63),
    "string": lambda source: source.choice(WORDS),
    "timedelta_i32": milliseconds(31),
    "timedelta_i64": milliseconds(40),
    "uuid": lambda source: uuid.UUID(int=source.randrange(1, 2**128)),
}
