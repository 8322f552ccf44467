"""Kafka messages as objects, for callers in process: `kio` entities to frames and back.

Frames here are what follows the 4-byte length on the wire: header and body. Nothing on the
server's hot path comes through this module. `body_at(frame, flexible)` says where the body of a
request frame begins, and raises ValueError for what is no header.
"""

from __future__ import annotations

import io
import struct
import sys
from importlib import import_module
from typing import Any, NamedTuple

from kio.serial import entity_reader, entity_writer

from pykcoord import _native
from pykcoord._native import body_at
from pykcoord.errors import ArgumentError

__all__ = [
    "GROUP_APIS", "LONGEST_FRAMES_BYTES", "GroupApi", "body_at", "decode_response",
    "encode_request", "response_type",
]  # fmt: skip


class GroupApi(NamedTuple):
    """An API that the native core answers: `key` and `name` are Kafka's, `minimum` to `maximum`
    are the versions that are served."""

    key: int
    name: str
    minimum: int
    maximum: int


# All of them, from the one table in native/wire.
GROUP_APIS = tuple(GroupApi(*row) for row in _native.GROUP_APIS)
# Bytes of a frame, by key, of those of them that have a bound of their own.
LONGEST_FRAMES_BYTES: dict[int, int] = dict(_native.LONGEST_FRAMES)


def encode_request(request: object, correlation_id: int = 0, client_id: str = "pykcoord") -> bytes:
    """The frame of a request entity, e.g. `kio.schema.heartbeat.v4.request.HeartbeatRequest`.

    `correlation_id` is an int32 that comes back in the response; `client_id` goes into member
    ids and DescribeGroups. Raises ArgumentError if `request` is not a kio request entity.
    """
    entity: Any = type(request)
    header_type = getattr(entity, "__header_schema__", None)
    if header_type is None or not entity.__module__.endswith(".request"):
        raise ArgumentError(
            "request",
            f"{request!r} is no Kafka request; pass an entity of "
            "kio.schema.<api>.v<version>.request, or the bytes of a frame",
        )
    header = header_type(
        request_api_key=entity.__api_key__,
        request_api_version=entity.__version__,
        correlation_id=correlation_id,
        client_id=client_id,
    )
    frame = io.BytesIO()
    entity_writer(header_type)(frame, header)
    try:
        entity_writer(entity)(frame, request)
    except (TypeError, ValueError, AttributeError, struct.error) as error:
        raise ArgumentError("request", f"{entity.__name__}: {error}") from error
    return frame.getvalue()


def response_type(request: object) -> type[Any]:
    """The response entity of the same API and version as a request entity."""
    entity = type(request)
    module_name = entity.__module__.removesuffix("request") + "response"
    module = sys.modules.get(module_name) or import_module(module_name)
    name = entity.__name__.removesuffix("Request") + "Response"
    found: type[Any] = getattr(module, name)
    return found


def decode_response(request: object, frame: bytes) -> Any:
    """The response entity to `request` in `frame` (header and body, without its length)."""
    entity = response_type(request)
    _header, position = entity_reader(entity.__header_schema__)(frame, 0)
    body, _end = entity_reader(entity)(frame, position)
    return body
