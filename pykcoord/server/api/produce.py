"""Produce (0): advertised, because clients conclude from it what a server can do, and refused.

Without it librdkafka builds Fetch v0 (peers.md 4.4, pitfall 3). Each partition hears
POLICY_VIOLATION: no client tries that again, and from v8 on the answer carries a text that says
why. UNSUPPORTED_VERSION and the like would blame the client; retriable errors would have
producers wait until their delivery timeout. With acks=0 a producer expects no answer: its
connection is closed, as Kafka does for errors.
"""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from pykcoord.server.api.messages import Fields
from pykcoord.server.api.node_api import Cluster, NodeApi

_TEXT = "pykcoord coordinates consumer groups and keeps no records: produce to a Kafka broker"


def _answer(request: Any, version: int, cluster: Cluster) -> Fields | None:
    if request.acks == 0:
        return None
    return {
        "responses": [
            {
                "name": getattr(topic, "name", ""),
                "topic_id": getattr(topic, "topic_id", None),
                "partition_responses": [
                    {
                        "index": partition.index,
                        "error_code": ErrorCode.policy_violation,
                        "base_offset": -1,
                        "log_append_time": None,
                        "log_start_offset": -1,
                        "record_errors": [],
                        "error_message": _TEXT,
                    }
                    for partition in topic.partition_data
                ],
            }
            for topic in request.topic_data
        ]
    }


API = NodeApi(0, "Produce", 3, 13, _answer, advertised_minimum=0)
