"""ApiVersions (18): what this server serves. Nothing may be listed that is not answered."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from functools import cache
from typing import Any

from kio.schema.errors import ErrorCode

from pykcoord.protocol import GROUP_APIS
from pykcoord.server.api.messages import NONE, TAGS, Fields
from pykcoord.server.api.node_api import Cluster, NodeApi
from pykcoord.session import Session

KEY = 18
MINIMUM, MAXIMUM = 0, 5
# org.apache.kafka.common.requests.ApiVersionsRequest
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")

_GROUP_VERSION = b"group.version"
_CONSUMER_GROUP_KEYS = frozenset({68, 69})
_TXN_OFFSET_COMMIT_KEY = 28
_TRANSACTIONAL_KEYS = frozenset({27, _TXN_OFFSET_COMMIT_KEY})
# Features do not change while a server runs.
_FEATURES_EPOCH = 1


def api_of(others: Iterable[NodeApi]) -> NodeApi:
    """ApiVersions over the core's APIs, `others` and itself."""
    ranges = [(api.key, api.minimum, api.maximum) for api in GROUP_APIS]
    ranges.append((KEY, MINIMUM, MAXIMUM))
    for other in others:
        lowest = other.minimum if other.advertised_minimum is None else other.advertised_minimum
        ranges.append((other.key, lowest, other.maximum))
    ranges.sort()

    @cache
    def listed(has_consumer_groups: bool, transactional_version: int | None) -> list[Fields]:
        # Kafka lists them all the same, and franz-go then joins by what is refused.
        left_out = frozenset() if has_consumer_groups else _CONSUMER_GROUP_KEYS
        if transactional_version is None:
            left_out |= _TRANSACTIONAL_KEYS
        most = {_TXN_OFFSET_COMMIT_KEY: transactional_version}
        return [
            {"api_key": key, "min_version": lowest, "max_version": most.get(key, highest)}
            for key, lowest, highest in ranges
            if key not in left_out
        ]

    def answer(request: Any, version: int, cluster: Cluster, session: Session) -> Fields:
        error = _error_of(request, version, cluster)
        keys = listed(cluster.has_consumer_groups, cluster.transactional_version())
        fields = {"error_code": error, "api_keys": keys if error is NONE else []}
        if version >= 3 and error is NONE:
            fields[TAGS] = _features(version, int(cluster.has_consumer_groups))
        return fields

    return NodeApi(
        KEY, "ApiVersions", MINIMUM, MAXIMUM, answer, repeatable=True, software=_software
    )


def _error_of(request: Any, version: int, cluster: Cluster) -> ErrorCode:
    if version >= 3 and _software(request) is None:
        return ErrorCode.invalid_request
    if version >= 5:
        cluster_id, node_id = request.cluster_id, request.node_id
        if (cluster_id is None) != (node_id == -1):
            return ErrorCode.invalid_request
        if cluster_id is not None and (cluster_id, node_id) != (
            cluster.cluster_id,
            cluster.node_id,
        ):
            return ErrorCode.rebootstrap_required
    return NONE


@cache
def _features(version: int, level: int) -> bytes:
    """The tagged fields: `group.version` is all that there is of Kafka's features. Version 3 knows
    no lowest version of 0, and does without what is supported then (KAFKA-17011)."""
    name = len(_GROUP_VERSION) + 1
    # A compact array of one structure, which has no tags of its own.
    feature = struct.pack(f">BB{len(_GROUP_VERSION)}s", 2, name, _GROUP_VERSION)
    supported = feature + struct.pack(">hhB", 0, 1, 0)
    finalized = feature + struct.pack(">hhB", level, level, 0)
    tags = [(1, struct.pack(">q", _FEATURES_EPOCH)), (2, finalized if level else b"\x01")]
    if version >= 4:
        tags.insert(0, (0, supported))
    written = b"".join(bytes((tag, len(content))) + content for tag, content in tags)
    return bytes((len(tags),)) + written


def unsupported_version(correlation_id: int) -> bytes:
    """The answer to a version that is not served: body v0, error 35 and the one entry that lets
    the client choose again (KIP-511)."""
    return struct.pack(
        ">iihihhh", 16, correlation_id, ErrorCode.unsupported_version, 1, KEY, MINIMUM, MAXIMUM
    )


def _software(request: Any) -> tuple[str, str] | None:
    """What the client says that it is; None before v3, and where it is no name."""
    name = getattr(request, "client_software_name", "")
    version = getattr(request, "client_software_version", "")
    return (name, version) if all(map(_SOFTWARE.fullmatch, (name, version))) else None
