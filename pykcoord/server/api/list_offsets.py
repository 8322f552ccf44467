"""ListOffsets (2): where partitions begin (always 0) and end.

An end is what the catalogue's owner said, and never below what a group has committed: sarama and
kafka-go compare the two themselves, and refuse to resume beyond the end; kafka-consumer-groups
clamps a reset to it. Not `repeatable`: with each commit there may be another answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterator
from itertools import islice
from typing import Any

from kio.schema.errors import ErrorCode

from pykcoord.catalogue import Topic
from pykcoord.server._seen import Seen
from pykcoord.server.api.events_topic import Question, at_question, ends_question
from pykcoord.server.api.messages import LOOKED_AT, NONE, PAUSE, SLICE_ELEMENTS, Fields
from pykcoord.server.api.node_api import Cluster, NodeApi
from pykcoord.server.api.topic_fields import NO_LEADER_EPOCH
from pykcoord.session import Session

_LATEST, _EARLIEST = -1, -2
# What has no answer in a log without records, and the version from which Kafka knows it:
# max timestamp, earliest local, latest tiered, earliest pending upload.
_NOWHERE_SINCE = {-3: 7, -5: 9, -6: 11}
_EARLIEST_LOCAL, _EARLIEST_LOCAL_SINCE = -4, 8
_UNKNOWN = -1
# Of how many partitions of a request other nodes are asked: each looks at all of its shards.
_MOST_ASKED = 1_000


def _answer(request: Any, version: int, cluster: Cluster, session: Session) -> Fields:
    return {"topics": _topics(request, version, cluster)}


def _topics(request: Any, version: int, cluster: Cluster) -> Iterator[Fields]:
    topics, once, twice = Seen(len(request.topics)), Seen(), Seen()
    looked_at = 0
    for asked in request.topics:
        number = topics.place(asked.name) << 32
        for partition in asked.partitions:
            if not once.add(None, number + partition.partition_index):
                twice.add(None, number + partition.partition_index)
            looked_at += 1
            if looked_at % LOOKED_AT == 0:
                yield PAUSE
        yield PAUSE  # a topic without partitions is work, too
    told = Seen()
    for asked in request.topics:
        number = topics.place(asked.name) << 32
        partitions = _partitions(asked, version, number, twice, told, cluster)
        yield {"name": asked.name, "partitions": partitions}


def _partitions(
    asked: Any,
    version: int,
    number: int,
    twice: Seen,
    told: Seen,
    cluster: Cluster,
) -> Iterator[Fields]:
    """Each once; what is asked for twice is an invalid request (ReplicaManager.fetchOffset)."""
    topic = cluster.topic(asked.name)
    partitions = iter(asked.partitions)
    while some := list(islice(partitions, SLICE_ELEMENTS)):
        found = []
        for partition in some:
            identity = number + partition.partition_index
            if not twice.has(None, identity):
                found.append((_of(cluster, topic, partition, version), partition))
            elif told.add(None, identity):
                refused = _fields(partition, ErrorCode.invalid_request)
                found.append((refused, partition))
        latest = [
            fields
            for fields, partition in found
            if partition.timestamp == _LATEST and fields["error_code"] is NONE
        ]
        if topic is not None and latest and cluster.events_of(topic) is None:
            ends = cluster.ends(topic, [fields["partition_index"] for fields in latest])
            for fields, end in zip(latest, ends, strict=True):
                fields["offset"] = end
        for fields, _ in found:
            yield fields
        for _ in range(len(some) - len(found)):
            yield PAUSE


def _fields(asked: Any, error: ErrorCode, offset: int = _UNKNOWN) -> dict[str, Any]:
    return {
        "partition_index": asked.partition_index,
        "error_code": error,
        "timestamp": _UNKNOWN,
        "leader_epoch": NO_LEADER_EPOCH,
        "offset": offset,
    }


def _of(cluster: Cluster, topic: Topic | None, asked: Any, version: int) -> dict[str, Any]:
    """A partition of any topic: only that of group events has records."""
    fields = _partition(topic, asked, version)
    events = cluster.events_of(topic)
    if events is None or fields["error_code"] is not NONE:
        return fields
    start, end = events.ends(asked.partition_index)
    if asked.timestamp == _LATEST:
        fields["offset"] = end
    elif asked.timestamp < 0:
        fields["offset"] = start if fields["offset"] == 0 else fields["offset"]
    else:
        found = events.offset_at(asked.partition_index, asked.timestamp)
        fields["offset"], fields["timestamp"] = found
    return fields


def _partition(topic: Topic | None, asked: Any, version: int) -> dict[str, Any]:
    """The latest is filled in for all partitions of a topic together."""
    if topic is None or not 0 <= asked.partition_index < topic.partitions:
        return _fields(asked, ErrorCode.unknown_topic_or_partition)
    timestamp = asked.timestamp
    if timestamp in (_LATEST, _EARLIEST):
        return _fields(asked, NONE, 0)
    if timestamp == _EARLIEST_LOCAL and version >= _EARLIEST_LOCAL_SINCE:
        return _fields(asked, NONE, 0)
    # No record has a timestamp, so none is at or after the one asked for.
    if timestamp >= 0 or version >= _NOWHERE_SINCE.get(timestamp, version + 1):
        return _fields(asked, NONE)
    return _fields(asked, ErrorCode.unsupported_version)


def _asks(request: Any, cluster: Cluster) -> Generator[None, None, asyncio.Future[Any] | None]:
    """Other nodes, of the latest offsets: groups of theirs may be further. And events of groups,
    where these are far away."""
    events = cluster.events if cluster.events is not None and cluster.events.is_far else None
    if cluster.peers is None and events is None:
        return None
    topics = cluster.catalogue.topics()
    wanted: dict[str, list[int]] = {}
    questions: list[Question] = []
    asked = ((of.name, one) for of in request.topics for one in of.partitions)
    for number, (name, one) in enumerate(islice(asked, _MOST_ASKED), 1):
        topic = topics.get(name)
        if one.timestamp == _LATEST and topic and 0 <= one.partition_index < topic.partitions:
            wanted.setdefault(name, []).append(one.partition_index)
        elif events is not None and events.by_name(name) and one.partition_index >= 0:
            questions += _questions(one.partition_index, one.timestamp, events.topic.partitions)
        if number % SLICE_ELEMENTS == 0:
            yield
    told = events.ask(questions) if events is not None else None
    waits = [one for one in (cluster.ask_ends(wanted), told) if one is not None]
    return asyncio.gather(*waits) if waits else None


def _questions(partition: int, timestamp: int, partitions: int) -> list[Question]:
    if partition >= partitions:
        return []
    ends = ends_question(partition)
    return [ends] if timestamp < 0 else [ends, at_question(partition, timestamp)]


API = NodeApi(2, "ListOffsets", 1, 11, _answer, asks=_asks)
