"""DescribeTopicPartitions (75): Metadata by the page, which Kafka's own tools ask for."""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from pykcoord.server.api.messages import Fields
from pykcoord.server.api.node_api import Cluster, NodeApi
from pykcoord.server.api.topic_fields import known_topic, unknown_topic

# max.request.partition.size.limit
_MOST_PARTITIONS = 2_000


def _answer(request: Any, version: int, cluster: Cluster) -> Fields:
    """Topics in order of their names, from the cursor on, up to a number of partitions."""
    topics = cluster.catalogue.topics()
    names = sorted({topic.name for topic in request.topics} or topics)
    first = 0
    if request.cursor is not None:
        names = [name for name in names if name >= request.cursor.topic_name]
        if names and names[0] == request.cursor.topic_name:
            first = max(0, request.cursor.partition_index)
    room = max(1, min(request.response_partition_limit, _MOST_PARTITIONS))
    found: list[Fields] = []
    for name in names:
        topic = topics.get(name)
        if topic is None:
            found.append(unknown_topic(name, None, ErrorCode.unknown_topic_or_partition))
            continue
        if room == 0:
            return _page(found, {"topic_name": name, "partition_index": 0})
        end = min(topic.partitions, first + room)
        found.append(known_topic(topic, range(first, end), cluster))
        room -= max(0, end - first)
        if end < topic.partitions:
            return _page(found, {"topic_name": name, "partition_index": end})
        first = 0
    return _page(found, None)


def _page(topics: list[Fields], cursor: Fields | None) -> Fields:
    return {"topics": topics, "next_cursor": cursor}


API = NodeApi(75, "DescribeTopicPartitions", 0, 0, _answer, repeatable=True)
