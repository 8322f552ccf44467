"""ListConfigResources (74): what has configurations. Version 0 asks for client metrics, and there
are none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kio.schema.errors import ErrorCode

from pykcoord.server.api.config_resources import BROKER, BROKER_LOGGER, GROUP, TOPIC
from pykcoord.server.api.messages import NONE, Fields
from pykcoord.server.api.node_api import Cluster, NodeApi
from pykcoord.session import Session

_CLIENT_METRICS = 16
_ALL = (GROUP, _CLIENT_METRICS, BROKER_LOGGER, BROKER, TOPIC)


def _answer(request: Any, version: int, cluster: Cluster, session: Session) -> Fields:
    if version == 0:
        return {"error_code": NONE, "config_resources": ()}
    types = set(request.resource_types) or set(_ALL)
    if not types <= set(_ALL):
        return {"error_code": ErrorCode.unsupported_version, "config_resources": ()}
    return {"error_code": NONE, "config_resources": _resources(types, cluster)}


def _resources(types: set[int], cluster: Cluster) -> Iterator[Fields]:
    """Groups that have settings of their own, every node, and every topic."""
    nodes = [str(broker.node_id) for broker in cluster.brokers()]
    names = {
        GROUP: lambda: sorted(cluster.catalogue.group_configs()),
        BROKER_LOGGER: lambda: nodes,
        BROKER: lambda: nodes,
        TOPIC: lambda: sorted(cluster.catalogue.topics()),
    }
    for kind in _ALL:
        for name in names[kind]() if kind in types and kind in names else ():
            yield {"resource_name": name, "resource_type": kind}


API = NodeApi(74, "ListConfigResources", 0, 1, _answer)
