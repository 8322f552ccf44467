"""DescribeCluster (60): the nodes of this cluster, and which of them changes topics."""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from pykcoord.server.api.messages import NONE, Fields
from pykcoord.server.api.node_api import Cluster, NodeApi
from pykcoord.server.api.topic_fields import NO_AUTHORIZED_OPERATIONS
from pykcoord.session import Session

_BROKERS, _CONTROLLERS = 1, 2  # KIP-919


def _answer(request: Any, version: int, cluster: Cluster, session: Session) -> Fields:
    endpoint_type = getattr(request, "endpoint_type", _BROKERS)
    error, text = NONE, None
    if endpoint_type == _CONTROLLERS:
        error = ErrorCode.mismatched_endpoint_type
        text = "The request was sent to an endpoint of type BROKER, but we wanted an endpoint "
        text += "of type CONTROLLER"
    elif endpoint_type != _BROKERS:
        error = ErrorCode.unsupported_endpoint_type
        text = f"Unsupported endpoint type {endpoint_type}"
    brokers = [
        {
            "broker_id": broker.node_id,
            "host": broker.host,
            "port": broker.port,
            "rack": None,
            "is_fenced": False,
        }
        for broker in cluster.brokers()
    ]
    return {
        "error_code": error,
        "error_message": text,
        "endpoint_type": endpoint_type,
        "cluster_id": cluster.cluster_id if error is NONE else "",
        "controller_id": cluster.controller_id if error is NONE else -1,
        "brokers": brokers if error is NONE else [],
        "cluster_authorized_operations": NO_AUTHORIZED_OPERATIONS,
    }


API = NodeApi(60, "DescribeCluster", 0, 2, _answer, repeatable=True)
