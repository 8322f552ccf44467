"""Versions of messages that Kafka 4.4 has and kio's classes do not have yet.

Annotations are types here, not strings: kio reads them.
"""

from dataclasses import dataclass, field
from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.schema.api_versions.v4.request import ApiVersionsRequest
from kio.static.primitive import i16, i32

__all__ = ["request_schema", "response_schema"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _ApiVersionsRequest5(ApiVersionsRequest):
    """KIP-1242: whom the client believes to talk to."""

    __version__ = i16(5)
    cluster_id: str | None = field(metadata={"kafka_type": "string"}, default=None)
    node_id: i32 = field(metadata={"kafka_type": "int32"}, default=i32(-1))


_REQUESTS: dict[tuple[int, int], Any] = {(18, 5): _ApiVersionsRequest5}
# Responses that have the fields of an earlier version.
_RESPONSES = {(18, 5): (18, 4)}


def request_schema(key: int, version: int) -> Any:
    """The class of requests of an API and version, as kio writes them."""
    later = _REQUESTS.get((key, version))
    return load_request_schema(key, version) if later is None else later


def response_schema(key: int, version: int) -> Any:
    """The same of responses."""
    return load_response_schema(*_RESPONSES.get((key, version), (key, version)))
