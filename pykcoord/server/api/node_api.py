"""What a node-level API is, and what its handler may know: the frame of `server/api`."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from pykcoord.catalogue import Catalogue, Topic
from pykcoord.server.api.events_topic import EventsTopic
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
    `ends(wanted)` asks the others what their groups have committed at the most for partitions, by
    topic; what they do not say is missing there. None: nobody can be asked.
    """

    @property
    def version(self) -> int: ...
    @property
    def controller_id(self) -> int | None: ...
    def brokers(self) -> Sequence[Broker]: ...
    def coordinator(self, group_id: str) -> Broker | None: ...
    def ends(
        self, wanted: Mapping[str, Sequence[int]]
    ) -> asyncio.Future[Mapping[str, Sequence[int]]] | None: ...


# Of ends that other nodes told. They are asked for again each time.
_MOST_ENDS = 100_000

Furthest = Callable[[str, Sequence[int]], Sequence[int]]


@dataclass(slots=True)
class Cluster:
    """This node as clients see it. `host` and `port` are the advertised ones. Without `peers` it
    is alone, and coordinates every group. `furthest` says of partitions of a topic what was
    committed for them at the most, by any group; 0 where nothing was. `has_consumer_groups`: the
    protocol `consumer` is enabled. `transactional_version`: the highest version of TxnOffsetCommit
    that is served; None: no transactions are. `events`: the internal topic of group events."""

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
    ends_elsewhere: dict[tuple[uuid.UUID, int], int] = field(default_factory=dict)
    has_consumer_groups: bool = True
    transactional_version: Callable[[], int | None] = lambda: None
    events: EventsTopic | None = None
    produced: Rarely = field(default_factory=Rarely)  # requests of producers, for the log

    @property
    def version(self) -> tuple[int, int]:
        """Another one after each change of the topics or the nodes."""
        return self.catalogue.version, self.peers.version if self.peers is not None else 0

    def topic(self, name: str) -> Topic | None:
        """A topic of the catalogue, or the internal one."""
        found = self.catalogue.topics().get(name)
        return found or (self.events.by_name(name) if self.events is not None else None)

    def topic_by_id(self, topic_id: uuid.UUID | None) -> Topic | None:
        """The same by its id."""
        found = self.catalogue.by_id(topic_id) if topic_id is not None else None
        return found or (self.events.by_id(topic_id) if self.events is not None else None)

    def events_of(self, topic: Topic | None) -> EventsTopic | None:
        """The internal topic, if it is this one."""
        is_it = self.events is not None and topic is self.events.topic
        return self.events if is_it else None

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
        ends = [
            max(topic.end_offset(one), self.ends_elsewhere.get((topic.topic_id, one), 0))
            for one in partitions
        ]
        if self.furthest is None:
            return ends
        return list(map(max, ends, self.furthest(topic.name, partitions)))

    def ask_ends(self, wanted: Mapping[str, Sequence[int]]) -> asyncio.Future[Any] | None:
        """Ask the other nodes before `ends` is called; None where there is nobody to ask."""
        asked = self.peers.ends(wanted) if self.peers is not None and wanted else None
        if asked is not None:
            asked.add_done_callback(lambda told: self._take_ends(wanted, told.result()))
        return asked

    def _take_ends(
        self, wanted: Mapping[str, Sequence[int]], told: Mapping[str, Sequence[int]]
    ) -> None:
        if len(self.ends_elsewhere) > _MOST_ENDS:
            self.ends_elsewhere.clear()
        topics = self.catalogue.topics()
        for name, ends in told.items():
            if (topic := topics.get(name)) is not None:
                for partition, end in zip(wanted[name], ends, strict=True):
                    self.ends_elsewhere[topic.topic_id, partition] = end

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
    says them. `asks(request, cluster)`: what must be done before `answer` is called, if anything;
    yields after each slice of work.
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
    asks: Callable[[Any, Cluster], Generator[None, None, asyncio.Future[Any] | None]] | None = None
