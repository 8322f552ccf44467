"""DescribeTopicPartitions (75): Metadata by the page, which Kafka's own tools ask for."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Any

from kio.schema.errors import ErrorCode

from pykcoord.server._seen import Seen
from pykcoord.server.api.messages import PAUSE, Fields
from pykcoord.server.api.node_api import Cluster, NodeApi
from pykcoord.server.api.topic_fields import known_topic, unknown_topic
from pykcoord.session import Session

# max.request.partition.size.limit
_MOST_PARTITIONS = 2_000


def _answer(request: Any, version: int, cluster: Cluster, session: Session) -> Fields:
    fields: dict[str, Any] = {"next_cursor": None}
    # The cursor is written behind the topics, and known by then.
    fields["topics"] = _topics(request, cluster, fields)
    return fields


def _topics(request: Any, cluster: Cluster, fields: dict[str, Any]) -> Iterator[Fields]:
    """Topics in order of their names, from the cursor on, up to a number of partitions. Sets
    `next_cursor` of `fields` where more follow."""
    topics = cluster.catalogue.topics()
    cursor = request.cursor
    seen = Seen(len(request.topics))
    names: list[str] = []  # a heap: sorting them would be one long piece of work
    for name in (asked.name for asked in request.topics) if request.topics else list(topics):
        if seen.add(name) and (cursor is None or name >= cursor.topic_name):
            heappush(names, name)
        yield PAUSE
    first = 0
    if cursor is not None and names and names[0] == cursor.topic_name:
        first = max(0, cursor.partition_index)
    room = max(1, min(request.response_partition_limit, _MOST_PARTITIONS))
    while names:
        name = heappop(names)
        topic = topics.get(name)
        if topic is None:
            yield unknown_topic(name, None, ErrorCode.unknown_topic_or_partition)
            continue
        if room == 0:
            fields["next_cursor"] = {"topic_name": name, "partition_index": 0}
            return
        end = min(topic.partitions, first + room)
        yield known_topic(topic, range(first, end), cluster)
        room -= max(0, end - first)
        if end < topic.partitions:
            fields["next_cursor"] = {"topic_name": name, "partition_index": end}
            return
        first = 0


API = NodeApi(75, "DescribeTopicPartitions", 0, 0, _answer, repeatable=True)
