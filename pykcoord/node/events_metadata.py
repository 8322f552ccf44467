"""The topic of group events in a node's answers to Metadata: the cluster's brokers do not know it,
and are not asked for it, since they might create it.
"""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Awaitable, Callable
from typing import Any

from kio.index import load_request_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i32

from pykcoord.node.messages import decode, nested_of, response_class
from pykcoord.protocol import body_at
from pykcoord.server.api.events_topic import EventsTopic

__all__ = ["is_named", "metadata_with_events"]

KEY = 3
_VERSIONS = range(1, 14)
# From which version on a topic may be named by its id.
_IDS_SINCE = 10


def is_named(events: EventsTopic, version: int, frame: bytes) -> bool:
    """Whether a request to Metadata may name the topic. Without decoding it: most name others."""
    topic = events.topic
    return version in _VERSIONS and (topic.name.encode() in frame or topic.topic_id.bytes in frame)


async def metadata_with_events(
    events: EventsTopic,
    node_id: int,
    version: int,
    frame: bytes,
    forward: Callable[[bytes], Awaitable[bytes]],
) -> bytes:
    """The answer to Metadata, without its length: what a broker says (`forward`) of all else, and
    the topic of events, of which node `node_id` leads each partition that it keeps."""
    request = decode(KEY, version, frame)
    named = request.topics or ()
    others = [one for one in named if not events.is_asked(one.name, getattr(one, "topic_id", None))]
    if len(others) == len(named):
        return await forward(frame)
    answer = await forward(_request(request, version, frame, others))
    kind = response_class(KEY, version)
    _, position = entity_reader(kind.__header_schema__)(answer, 0)
    told, _ = entity_reader(kind)(answer, position)
    told = dataclasses.replace(told, topics=(*told.topics, _topic(events, node_id, version)))
    out = io.BytesIO()
    out.write(answer[:position])
    entity_writer(kind)(out, told)
    return out.getvalue()


def _request(request: Any, version: int, frame: bytes, others: list[Any]) -> bytes:
    """The same, but for the topics."""
    kind: Any = load_request_schema(KEY, version)
    of_topic = nested_of(kind, "topics")
    topics = [
        of_topic(
            name=one.name, **({"topic_id": one.topic_id} if version >= _IDS_SINCE else {})
        )
        for one in others
    ]  # fmt: skip
    fields = {
        field.name: getattr(request, field.name)
        for field in dataclasses.fields(kind)
        if field.name != "topics" and hasattr(request, field.name)
    }
    out = io.BytesIO()
    out.write(frame[: body_at(frame, flexible=kind.__flexible__)])
    entity_writer(kind)(out, kind(topics=tuple(topics), **fields))
    return out.getvalue()


def _topic(events: EventsTopic, node_id: int, version: int) -> Any:
    of_topic = nested_of(response_class(KEY, version), "topics")
    of_partition = nested_of(of_topic, "partitions")
    alone = (i32(node_id),)
    partitions = tuple(
        of_partition(
            error_code=ErrorCode.none, partition_index=i32(number), leader_id=i32(node_id),
            replica_nodes=alone, isr_nodes=alone,
            **({"leader_epoch": i32(-1)} if version >= 7 else {}),
            **({"offline_replicas": ()} if version >= 5 else {}),
        )
        for number in range(events.topic.partitions)
    )  # fmt: skip
    return of_topic(
        error_code=ErrorCode.none,
        name=events.topic.name,
        is_internal=True,
        partitions=partitions,
        **({"topic_id": events.topic.topic_id} if version >= _IDS_SINCE else {}),
    )
