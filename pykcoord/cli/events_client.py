"""Reads the topic of a server's group events, from all of its nodes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import NamedTuple

from pykcoord.cli.serving import new_runner
from pykcoord.errors import KcoordError
from pykcoord.kafka.client_properties import ClientProperties
from pykcoord.kafka.cluster import Cluster, metadata_of
from pykcoord.kafka.ends import EARLIEST, LATEST, offset_of
from pykcoord.kafka.errors import ClusterError, UnreachableError
from pykcoord.kafka.fetching import Fetcher, Position
from pykcoord.kafka.view import ClusterTopic, ClusterView
from pykcoord.log.events import EVENTS_TOPIC, EventRecord, decode_batches
from pykcoord.records import partition_of

__all__ = ["Served", "fetch_events"]

_PROPERTIES = {
    "client.id": "pykcoord-explain", "request.timeout.ms": "15000",
    "socket.connection.setup.timeout.ms": "15000",
}  # fmt: skip
_FETCH_BYTES = 4 << 20
_TOPIC_SECONDS = 5.0


class Served(NamedTuple):
    """What the servers had: events by partition, and what could not be asked, for a line to the
    user."""

    partitions: dict[int, list[EventRecord]]
    missing: list[str]


def fetch_events(
    servers: str, group_id: str | None = None, config: Mapping[str, str] | None = None
) -> Served | None:
    """All events that the nodes behind `servers` (HOST:PORT, separated by commas) keep; only those
    of the partition of a group, where one is named. `config`: Kafka's client properties, for TLS
    and SASL. None: they have no such topic. Raises ConfigError, and KcoordError where none can be
    reached."""
    named = {**_PROPERTIES, **(config or {}), "bootstrap.servers": servers}
    with new_runner() as runner:
        return runner.run(_fetch(ClientProperties.of(named), group_id))


async def _fetch(properties: ClientProperties, group_id: str | None) -> Served | None:
    try:
        cluster = await Cluster.open(properties, topics=(EVENTS_TOPIC,))
    except ValueError as error:
        raise KcoordError(f"--bootstrap-servers: {error}") from None
    except UnreachableError as error:
        raise KcoordError(f"{error}; is a server running there?") from None
    try:
        return await _served(cluster, group_id)
    finally:
        await cluster.close()


async def _served(cluster: Cluster, group_id: str | None) -> Served | None:
    topics = await _topics(cluster)
    if not topics:
        return None
    topic = topics[0]
    wanted_one = partition_of(group_id, len(topic.leaders)) if group_id is not None else None
    by_node: dict[int, list[int]] = {}
    for partition, node_id in sorted(
        {(partition, of.node_id) for one in topics for partition, of in one.leaders.items()}
    ):
        if wanted_one is None or partition == wanted_one:
            by_node.setdefault(node_id, []).append(partition)
    records: dict[int, list[EventRecord]] = {}
    missing: list[str] = []
    for node_id, partitions in by_node.items():
        try:
            with contextlib.closing(await cluster.connect(node_id)) as connection:
                fetcher = Fetcher(connection, topic.topic_id, _FETCH_BYTES, most_wait_ms=0)
                for partition in partitions:
                    start, end = [
                        await offset_of(cluster, node_id, (EVENTS_TOPIC, partition), timestamp)
                        for timestamp in (EARLIEST, LATEST)
                    ]
                    found = await _between(fetcher, partition, start, end)
                    # Nodes of one cluster may serve the same.
                    known = dict.fromkeys([*records.get(partition, ()), *found])
                    records[partition] = list(known)
        except ClusterError as error:
            missing.append(str(error))
    if missing and len(missing) == len(by_node):
        raise KcoordError(missing[0])
    return Served(records, missing)


async def _topics(cluster: Cluster) -> list[ClusterTopic]:
    """The topic as each broker sees it: of a Kafka cluster those of pykcoord's nodes alone know
    it, each what it kept itself. Who does not answer may lead nothing of it, or else is missed
    later."""
    found = [topic] if (topic := cluster.view.topics.get(EVENTS_TOPIC)) is not None else []
    nodes = list(cluster.view.brokers)
    for topic in await asyncio.gather(*(_topic_of(cluster, node_id) for node_id in nodes)):
        if topic is not None and topic not in found:
            found.append(topic)
    return found


async def _topic_of(cluster: Cluster, node_id: int) -> ClusterTopic | None:
    view = ClusterView()
    with contextlib.suppress(ClusterError, TimeoutError):
        async with asyncio.timeout(_TOPIC_SECONDS):
            view.take(await cluster.ask(node_id, metadata_of((EVENTS_TOPIC,))), node_id, 0.0)
    return view.topics.get(EVENTS_TOPIC)


async def _between(fetcher: Fetcher, partition: int, start: int, end: int) -> list[EventRecord]:
    """What can be read of a partition."""
    found: list[EventRecord] = []
    offset = start
    while offset < end:
        before = offset
        for answer in await fetcher.fetch({partition: Position(offset, -1, -1)}):
            for next_offset, records in decode_batches(answer.records):
                found += [record for record in records if record.offset >= before]
                offset = next_offset
        if offset == before:
            break
    return found
