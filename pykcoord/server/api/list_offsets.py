"""ListOffsets (2): where partitions begin (always 0) and end (as the catalogue says)."""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from pykcoord.server.api.messages import NONE, Fields
from pykcoord.server.api.node_api import Cluster, NodeApi
from pykcoord.server.api.topic_fields import NO_LEADER_EPOCH

_LATEST, _EARLIEST = -1, -2
# What has no answer in a log without records, and the version from which Kafka knows it:
# max timestamp, earliest local, latest tiered, earliest pending upload.
_NOWHERE_SINCE = {-3: 7, -5: 9, -6: 11}
_EARLIEST_LOCAL, _EARLIEST_LOCAL_SINCE = -4, 8
_UNKNOWN = -1


def _answer(request: Any, version: int, cluster: Cluster) -> Fields:
    topics = cluster.catalogue.topics()
    return {
        "topics": [
            {
                "name": asked.name,
                "partitions": [
                    {
                        "partition_index": partition.partition_index,
                        "timestamp": _UNKNOWN,
                        "leader_epoch": NO_LEADER_EPOCH,
                        **_offset(topics.get(asked.name), partition, version),
                    }
                    for partition in asked.partitions
                ],
            }
            for asked in request.topics
        ]
    }


def _offset(topic: Any, asked: Any, version: int) -> Fields:
    if topic is None or not 0 <= asked.partition_index < topic.partitions:
        return {"error_code": ErrorCode.unknown_topic_or_partition, "offset": _UNKNOWN}
    timestamp = asked.timestamp
    if timestamp == _LATEST:
        return {"error_code": NONE, "offset": topic.end_offset(asked.partition_index)}
    if timestamp == _EARLIEST:
        return {"error_code": NONE, "offset": 0}
    if timestamp == _EARLIEST_LOCAL and version >= _EARLIEST_LOCAL_SINCE:
        return {"error_code": NONE, "offset": 0}
    # No record has a timestamp, so none is at or after the one asked for.
    if timestamp >= 0 or version >= _NOWHERE_SINCE.get(timestamp, version + 1):
        return {"error_code": NONE, "offset": _UNKNOWN}
    return {"error_code": ErrorCode.unsupported_version, "offset": _UNKNOWN}


API = NodeApi(2, "ListOffsets", 1, 11, _answer, repeatable=True)
