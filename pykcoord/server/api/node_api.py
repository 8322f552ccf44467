"""What a node-level API is, and what its handler may know: the frame of `server/api`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pykcoord.catalogue import Catalogue
from pykcoord.server.api.messages import Fields


@dataclass(slots=True)
class Cluster:
    """This node as clients see it. `host` and `port` are the advertised ones."""

    catalogue: Catalogue
    cluster_id: str
    node_id: int = 1
    host: str = "127.0.0.1"
    port: int = 0
    broker_configs: Mapping[str, str] = field(default_factory=dict)
    auto_create_topics: bool = False
    num_partitions: int = 1

    def broker(self) -> dict[str, Any]:
        """The one broker, in the words of Metadata."""
        return {"node_id": self.node_id, "host": self.host, "port": self.port}


@dataclass(frozen=True, slots=True)
class NodeApi:
    """One API: `answer(request, version, cluster)` gives the response's fields, or None where
    the protocol forbids an answer and the connection must be closed.

    `minimum` to `maximum` are served. `advertised_minimum` is what ApiVersions says where that
    must be lower. `wait_ms(request, fields)`: how long to hold the response back.
    """

    key: int
    name: str
    minimum: int
    maximum: int
    answer: Callable[[Any, int, Cluster], Fields | None]
    advertised_minimum: int | None = None
    wait_ms: Callable[[Any, Fields], int] | None = None
    repeatable: bool = False
