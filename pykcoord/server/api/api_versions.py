"""ApiVersions (18): what this server serves. Nothing may be listed that is not answered."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from typing import Any

from kio.schema.errors import ErrorCode

from pykcoord.protocol import GROUP_APIS
from pykcoord.server.api.messages import NONE, Fields
from pykcoord.server.api.node_api import Cluster, NodeApi
from pykcoord.session import Session

KEY = 18
MINIMUM, MAXIMUM = 0, 4
# org.apache.kafka.common.requests.ApiVersionsRequest
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def api_of(others: Iterable[NodeApi]) -> NodeApi:
    """ApiVersions over the core's APIs, `others` and itself."""
    ranges = [(api.key, api.minimum, api.maximum) for api in GROUP_APIS]
    ranges.append((KEY, MINIMUM, MAXIMUM))
    for other in others:
        lowest = other.minimum if other.advertised_minimum is None else other.advertised_minimum
        ranges.append((other.key, lowest, other.maximum))
    keys = [
        {"api_key": key, "min_version": lowest, "max_version": highest}
        for key, lowest, highest in sorted(ranges)
    ]

    def answer(request: Any, version: int, cluster: Cluster, session: Session) -> Fields:
        if version >= 3 and _software(request) is None:
            return {"error_code": ErrorCode.invalid_request, "api_keys": []}
        return {"error_code": NONE, "api_keys": keys}

    return NodeApi(
        KEY, "ApiVersions", MINIMUM, MAXIMUM, answer, repeatable=True, software=_software
    )


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
