"""Versions of messages that Kafka 4.4 has and kio's classes do not have yet.

Annotations are types here, not strings: kio reads them.
"""

from dataclasses import dataclass, field
from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.schema.api_versions.v4.request import ApiVersionsRequest
from kio.schema.delete_groups.v2.request import DeleteGroupsRequest
from kio.schema.delete_groups.v2.response import DeletableGroupResult, DeleteGroupsResponse
from kio.static.primitive import i16, i32

__all__ = ["request_schema", "response_schema"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _ApiVersionsRequest5(ApiVersionsRequest):
    """KIP-1242: whom the client believes to talk to."""

    __version__ = i16(5)
    cluster_id: str | None = field(metadata={"kafka_type": "string"}, default=None)
    node_id: i32 = field(metadata={"kafka_type": "int32"}, default=i32(-1))


@dataclass(frozen=True, slots=True, kw_only=True)
class _DeleteGroupsRequest3(DeleteGroupsRequest):
    __version__ = i16(3)


@dataclass(frozen=True, slots=True, kw_only=True)
class _DeletableGroupResult3(DeletableGroupResult):
    __version__ = i16(3)
    error_message: str | None = field(metadata={"kafka_type": "string"}, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _DeleteGroupsResponse3(DeleteGroupsResponse):
    """With a message for each error."""

    __version__ = i16(3)
    results: tuple[_DeletableGroupResult3, ...]


_REQUESTS: dict[tuple[int, int], Any] = {
    (18, 5): _ApiVersionsRequest5,
    (42, 3): _DeleteGroupsRequest3,
}
_RESPONSES: dict[tuple[int, int], Any] = {
    # The fields of version 4.
    (18, 5): load_response_schema(18, 4),
    (42, 3): _DeleteGroupsResponse3,
}


def request_schema(key: int, version: int) -> Any:
    """The class of requests of an API and version, as kio writes them."""
    later = _REQUESTS.get((key, version))
    return load_request_schema(key, version) if later is None else later


def response_schema(key: int, version: int) -> Any:
    """The same of responses."""
    later = _RESPONSES.get((key, version))
    return load_response_schema(key, version) if later is None else later
