"""FindCoordinator (10): this node coordinates every group, or its peers say which. Groups only."""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from pykcoord.server.api.messages import NONE, Each, Fields
from pykcoord.server.api.node_api import Broker, Cluster, NodeApi
from pykcoord.session import Session

_GROUP, _TRANSACTION, _SHARE = 0, 1, 2
# Errors.INVALID_REQUEST's text, which Kafka sends for key types that it does not know.
_MALFORMED = (
    "This most likely occurs because of a request being malformed by the client library or the "
    "message was sent to an incompatible broker. See the broker logs for more details."
)
_NOBODY = "No node leads the shard of this group now; one is about to."
_NOWHERE = Broker(-1, "", -1)
_GROUPS_ONLY = "pykcoord coordinates consumer groups, no transactions and no share groups."


def _answer(request: Any, version: int, cluster: Cluster, session: Session) -> Fields:
    key_type = getattr(request, "key_type", _GROUP)
    error, text = _verdict(key_type, version)
    if version >= 4:

        def described(key: str) -> Fields:
            return {"key": key, **_node(error, text, key, cluster)}

        return {"coordinators": Each(described, request.coordinator_keys)}
    fields = _node(error, text, request.key, cluster)
    if fields["error_code"] is NONE:
        fields["error_message"] = "NONE"
    elif not fields["error_message"]:
        fields["error_message"] = _MALFORMED
    return fields


def _verdict(key_type: int, version: int) -> tuple[ErrorCode, str]:
    if key_type == _GROUP:
        return NONE, ""
    # A final error: COORDINATOR_NOT_AVAILABLE would have clients ask again for ever.
    if key_type == _TRANSACTION or (key_type == _SHARE and version >= 6):
        return ErrorCode.invalid_request, _GROUPS_ONLY
    if key_type == _SHARE:
        return ErrorCode.invalid_request, ""
    return ErrorCode.invalid_request, _MALFORMED


def _node(error: ErrorCode, text: str, group_id: str, cluster: Cluster) -> dict[str, Any]:
    found = cluster.coordinator(group_id) if error is NONE else None
    if found is not None:
        return {**found._asdict(), "error_code": NONE, "error_message": text}
    if error is NONE:
        error, text = ErrorCode.coordinator_not_available, _NOBODY
    return {**_NOWHERE._asdict(), "error_code": error, "error_message": text}


API = NodeApi(10, "FindCoordinator", 0, 6, _answer, repeatable=True)
