"""Where partitions end, asked of their leaders by ListOffsets. An error keeps what was known, and
its age shows it.

Requests are encoded once for as long as leaders stay: that is most of the work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import NamedTuple

from kio.schema.list_offsets.v7.request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i32, i64

from pykcoord.clock import monotonic_seconds
from pykcoord.kafka.cluster import Cluster
from pykcoord.kafka.connection import Connection
from pykcoord.kafka.errors import ClusterError
from pykcoord.protocol import encode_request

__all__ = ["EARLIEST", "LATEST", "End", "Ends", "offset_at", "offset_of"]

LATEST, EARLIEST = -1, -2
"""Timestamps that stand for the end and the start of a log."""
_MOST_BYTES = 64 << 20
# Errors of a partition after which its leader is asked for anew.
_MOVED = frozenset({3, 6, 74, 75, 5, 9})


class End(NamedTuple):
    """The offset of the next record of a partition, and when a leader said so (`as_of`, monotonic
    seconds)."""

    offset: int
    as_of: float


async def offset_of(cluster: Cluster, node_id: int, place: tuple[str, int], timestamp: int) -> int:
    """The offset of a topic's partition at that time, `LATEST` or `EARLIEST`, by its leader. Raises
    ClusterError."""
    return await offset_at(await cluster.control(node_id), place, timestamp)


async def offset_at(
    connection: Connection, place: tuple[str, int], timestamp: int, replica_id: int = -1
) -> int:
    """The same of a leader that is connected; `replica_id`: the follower that asks."""
    name, partition = place
    asked = ListOffsetsPartition(
        partition_index=i32(partition), current_leader_epoch=i32(-1), timestamp=i64(timestamp)
    )
    topic = ListOffsetsTopic(name=TopicName(name), partitions=(asked,))
    request = ListOffsetsRequest(
        replica_id=BrokerId(replica_id), isolation_level=i8(0), topics=(topic,)
    )
    answer = await connection.ask(request)
    found = answer.topics[0].partitions[0]
    if found.error_code.value:
        raise ClusterError(connection.address, f"{name}-{partition}: {found.error_code.name}")
    return int(found.offset)


class Ends:
    """`known`: topic and partition to its end. `refresh` asks for those that are `wanted`."""

    def __init__(self, cluster: Cluster) -> None:
        self.known: dict[tuple[str, int], End] = {}
        self.errors = 0
        """Partitions for which no end came, over all rounds."""
        self._cluster = cluster
        self._encoded: dict[int, tuple[ListOffsetsRequest, bytes]] = {}
        self._encoded_for: tuple[int, frozenset[str]] = (-1, frozenset())

    async def refresh(self, wanted: Iterable[str]) -> None:
        """Asks all leaders at once for the ends of these topics; those of others are forgotten.
        Never raises for a broker: what it did not say keeps its age."""
        topics = frozenset(wanted) & self._cluster.view.topics.keys()
        key = (self._cluster.view.version, topics)
        if key != self._encoded_for:
            self._encode(topics)
            self._encoded_for = key
            for gone in [place for place in self.known if place[0] not in topics]:
                del self.known[gone]
        await asyncio.gather(*(self._ask(node_id) for node_id in list(self._encoded)))

    def _encode(self, topics: frozenset[str]) -> None:
        view = self._cluster.view
        asked: dict[int, dict[str, list[ListOffsetsPartition]]] = {}
        for name in sorted(topics):
            for partition, leader in view.topics[name].leaders.items():
                if leader.node_id >= 0:
                    asked.setdefault(leader.node_id, {}).setdefault(name, []).append(
                        ListOffsetsPartition(
                            partition_index=i32(partition),
                            current_leader_epoch=i32(leader.epoch),
                            timestamp=i64(LATEST),
                        )
                    )
        self._encoded = {}
        for node_id, by_topic in asked.items():
            request = ListOffsetsRequest(
                replica_id=BrokerId(-1),
                isolation_level=i8(0),
                topics=tuple(
                    ListOffsetsTopic(name=TopicName(name), partitions=tuple(partitions))
                    for name, partitions in by_topic.items()
                ),
            )
            frame = encode_request(request, 0, self._cluster.properties.client_id)
            self._encoded[node_id] = request, frame

    async def _ask(self, node_id: int) -> None:
        request, frame = self._encoded[node_id]
        try:
            connection = await self._cluster.control(node_id)
            connection.check_version(request)
            answer = connection.read(request, await connection.exchange(frame, None, _MOST_BYTES))
        except ClusterError:
            self.errors += sum(len(topic.partitions) for topic in request.topics)
            self._cluster.doubt()
            return
        now = monotonic_seconds()
        for topic in answer.topics:
            for partition in topic.partitions:
                if not partition.error_code.value:
                    place = (str(topic.name), int(partition.partition_index))
                    self.known[place] = End(int(partition.offset), now)
                    continue
                self.errors += 1
                if partition.error_code.value in _MOVED:
                    self._cluster.doubt()
