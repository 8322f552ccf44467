"""What a node-level API is, and what its handler may know: the frame of `server/api`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from pykcoord.catalogue import Catalogue, Topic
from pykcoord.server.api.messages import Fields
from pykcoord.server.rarely import Rarely
from pykcoord.session import Session


class Broker(NamedTuple):
    """One node of the cluster, and where clients reach it."""

    node_id: int
    host: str
    port: int


class Peers(Protocol):
    """The nodes of a cluster of several, and which of them coordinates a group.

    `version` is another one after each change of anything. Not being known is no error: a client
    asks again. `controller_id`: the node that changes topics; None: each of them.
    """

    @property
    def version(self) -> int: ...
    @property
    def controller_id(self) -> int | None: ...
    def brokers(self) -> Sequence[Broker]: ...
    def coordinator(self, group_id: str) -> Broker | None: ...


Furthest = Callable[[str, Sequence[int]], Sequence[int]]


@dataclass(slots=True)
class Cluster:
    """This node as clients see it. `host` and `port` are the advertised ones. Without `peers` it
    is alone, and coordinates every group. `furthest` says of partitions of a topic what was
    committed for them at the most, by any group; 0 where nothing was."""

    catalogue: Catalogue
    cluster_id: str
    node_id: int = 1
    host: str = "127.0.0.1"
    port: int = 0
    broker_configs: Mapping[str, str] = field(default_factory=dict)
    auto_create_topics: bool = False
    num_partitions: int = 1
    peers: Peers | None = None
    furthest: Furthest | None = None
    produced: Rarely = field(default_factory=Rarely)  # requests of producers, for the log

    @property
    def version(self) -> tuple[int, int]:
        """Another one after each change of the topics or the nodes."""
        return self.catalogue.version, self.peers.version if self.peers is not None else 0

    def brokers(self) -> list[Broker]:
        """All nodes; this one is always among them."""
        own = Broker(self.node_id, self.host, self.port)
        others = self.peers.brokers() if self.peers is not None else ()
        return [own, *(broker for broker in others if broker.node_id != self.node_id)]

    @property
    def controller_id(self) -> int:
        """The node that clients ask to change topics."""
        controller_id = self.peers.controller_id if self.peers is not None else None
        return self.node_id if controller_id is None else controller_id

    def ends(self, topic: Topic, partitions: Sequence[int]) -> list[int]:
        """Where partitions end: where the catalogue's owner says so, but never below what a group
        has committed, or its clients would not resume there."""
        said = map(topic.end_offset, partitions)
        if self.furthest is None:
            return list(said)
        return list(map(max, said, self.furthest(topic.name, partitions)))

    def coordinator(self, group_id: str) -> Broker | None:
        """The node that coordinates a group; None where none is known now."""
        if self.peers is None:
            return Broker(self.node_id, self.host, self.port)
        return self.peers.coordinator(group_id)


@dataclass(frozen=True, slots=True)
class NodeApi:
    """One API: `answer(request, version, cluster, session)` gives the response's fields, or None
    where the protocol forbids an answer and the connection must be closed; `session` is who asks.
    It returns at once: what may be long is iterated over while it is written, and PAUSE stands for
    work without an element.

    `minimum` to `maximum` are served. `advertised_minimum` is what ApiVersions says where that
    must be lower. `wait_ms(request, fields)`: how long to hold the response back, once it is
    written. `repeatable`: the same question has the same answer, whoever asks, until the cluster
    changes. `software(request)`: name and version of the client's software, where the request
    says them.
    """

    key: int
    name: str
    minimum: int
    maximum: int
    answer: Callable[[Any, int, Cluster, Session], Fields | None]
    advertised_minimum: int | None = None
    wait_ms: Callable[[Any, Fields], int] | None = None
    repeatable: bool = False
    software: Callable[[Any], tuple[str, str] | None] | None = None
