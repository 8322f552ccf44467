"""Not enabled (28, 68, 69): listed as Kafka lists them, refused with UNSUPPORTED_VERSION.

They are listed because Kafka lists them whether they are enabled or not: a client that wants the
consumer protocol hears UNSUPPORTED_VERSION, and says what to configure, as with a broker whose
`group.coordinator.rebalance.protocols` is `classic` (KafkaApis). Nothing is ever changed here.
"""

from __future__ import annotations

import datetime
from typing import Any

from kio.schema.errors import ErrorCode

from pykcoord.server.api.messages import Fields
from pykcoord.server.api.node_api import Cluster, NodeApi

_ERROR = ErrorCode.unsupported_version
# Kafka's text for this error.
_MESSAGE = "The version of API is not supported."


def _heartbeat(request: Any, version: int, cluster: Cluster) -> Fields:
    return {
        "error_code": _ERROR,
        "error_message": _MESSAGE,
        "member_id": None,
        "member_epoch": 0,
        "heartbeat_interval": datetime.timedelta(0),
        "assignment": None,
    }


def _describe(request: Any, version: int, cluster: Cluster) -> Fields:
    return {
        "groups": [
            {
                "error_code": _ERROR,
                "error_message": _MESSAGE,
                "group_id": group_id,
                "group_state": "",
                "group_epoch": 0,
                "assignment_epoch": 0,
                "assignor_name": "",
                "members": [],
            }
            for group_id in request.group_ids
        ]
    }


def _txn_offset_commit(request: Any, version: int, cluster: Cluster) -> Fields:
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    {"partition_index": partition.partition_index, "error_code": _ERROR}
                    for partition in topic.partitions
                ],
            }
            for topic in request.topics
        ]
    }


APIS = (
    NodeApi(28, "TxnOffsetCommit", 0, 5, _txn_offset_commit),
    NodeApi(68, "ConsumerGroupHeartbeat", 0, 1, _heartbeat),
    NodeApi(69, "ConsumerGroupDescribe", 0, 1, _describe),
)
