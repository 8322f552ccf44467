"""Fetch (1): a long poll on partitions that hold no records.

A fetch at any offset waits for its max_wait_ms and comes back empty. It is never
OFFSET_OUT_OF_RANGE (but for negative offsets): a consumer that resumes at a committed offset
must stay there, and the high watermark it sees is at least its position. Sessions (KIP-227) are
not kept: session id 0 makes every client send whole requests.
"""

from __future__ import annotations

import datetime
from typing import Any

from kio.schema.errors import ErrorCode

from pykcoord.catalogue import Topic
from pykcoord.server.api.messages import NONE, Fields
from pykcoord.server.api.node_api import Cluster, NodeApi

KEY = 1
_MILLISECOND = datetime.timedelta(milliseconds=1)
_UNKNOWN = -1
# Zero length, not null: librdkafka calls null "invalid MessageSetSize -1" (pitfall 9).
_NO_RECORDS = b""


def _answer(request: Any, version: int, cluster: Cluster) -> Fields:
    if getattr(request, "session_id", 0) != 0:
        return {
            "error_code": ErrorCode.fetch_session_id_not_found,
            "session_id": 0,
            "responses": [],
        }
    return {
        "error_code": NONE,
        "session_id": 0,
        "responses": [_topic(asked, version, cluster) for asked in request.topics],
    }


def _topic(asked: Any, version: int, cluster: Cluster) -> Fields:
    if version >= 13:
        identity = {"topic_id": asked.topic_id}
        topic = cluster.catalogue.by_id(asked.topic_id) if asked.topic_id is not None else None
        absent = ErrorCode.unknown_topic_id
    else:
        identity = {"topic": asked.topic}
        topic = cluster.catalogue.topics().get(asked.topic)
        absent = ErrorCode.unknown_topic_or_partition
    partitions = [_partition(topic, absent, partition) for partition in asked.partitions]
    return {**identity, "partitions": partitions}


def _partition(topic: Topic | None, absent: ErrorCode, asked: Any) -> Fields:
    end_offset = log_start_offset = _UNKNOWN
    if topic is None:
        error = absent
    elif not 0 <= asked.partition < topic.partitions:
        error = ErrorCode.unknown_topic_or_partition
    elif asked.fetch_offset < 0:
        error = ErrorCode.offset_out_of_range
    else:
        error = NONE
        end_offset = max(topic.end_offset(asked.partition), asked.fetch_offset)
        log_start_offset = 0
    return {
        "partition_index": asked.partition,
        "error_code": error,
        "high_watermark": end_offset,
        "last_stable_offset": end_offset,
        "log_start_offset": log_start_offset,
        "aborted_transactions": None,
        "preferred_read_replica": -1,
        "records": _NO_RECORDS,
    }


def _wait_ms(request: Any, fields: Fields) -> int:
    """0 where Kafka answers at once: nothing asked for, any error, or no wait wanted."""
    partitions = [p for topic in fields["responses"] for p in topic["partitions"]]
    if not partitions or request.min_bytes <= 0:
        return 0
    if any(partition["error_code"] is not NONE for partition in partitions):
        return 0
    return max(0, int(request.max_wait / _MILLISECOND))


API = NodeApi(KEY, "Fetch", 4, 18, _answer, wait_ms=_wait_ms)
