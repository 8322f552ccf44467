"""OffsetForLeaderEpoch (23): no log here was ever truncated.

Clients ask it to find out whether the records before their position are still the same. An
undefined end offset, or one below their position, would make them reset: every epoch is said to
be known and to end beyond every position.
"""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from pykcoord.server.api.messages import NONE, Each, Fields
from pykcoord.server.api.node_api import Cluster, NodeApi
from pykcoord.session import Session

_BEYOND_EVERY_POSITION = 2**63 - 1


def _answer(request: Any, version: int, cluster: Cluster, session: Session) -> Fields:
    def told(asked: Any) -> Fields:
        topic = cluster.topic(asked.topic)
        partitions = Each(lambda partition: _partition(topic, partition), asked.partitions)
        return {"topic": asked.topic, "partitions": partitions}

    return {"topics": Each(told, request.topics)}


def _partition(topic: Any, asked: Any) -> Fields:
    if topic is None or not 0 <= asked.partition < topic.partitions:
        return {
            "error_code": ErrorCode.unknown_topic_or_partition,
            "partition": asked.partition,
            "leader_epoch": -1,
            "end_offset": -1,
        }
    return {
        "error_code": NONE,
        "partition": asked.partition,
        "leader_epoch": asked.leader_epoch,
        "end_offset": _BEYOND_EVERY_POSITION,
    }


API = NodeApi(23, "OffsetForLeaderEpoch", 2, 4, _answer)
