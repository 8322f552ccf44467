"""Produce (0): advertised, because clients conclude from it what a server can do, and refused.

Without it librdkafka builds Fetch v0 (pitfall 3). Each partition hears
POLICY_VIOLATION: no client tries that again, and from v8 on the answer carries a text that says
why. UNSUPPORTED_VERSION and the like would blame the client; retriable errors would have
producers wait until their delivery timeout. With acks=0 a producer expects no answer: its
connection is closed, as Kafka does for errors.
"""

from __future__ import annotations

import logging
from typing import Any

from kio.schema.errors import ErrorCode

from pykcoord.server.api.messages import Each, Fields
from pykcoord.server.api.node_api import Cluster, NodeApi
from pykcoord.session import Session, describe

_TEXT = (
    "pykcoord coordinates consumer groups and keeps no records: point the producer's "
    "bootstrap.servers at a Kafka broker"
)

logger = logging.getLogger("pykcoord.server")


def _answer(request: Any, version: int, cluster: Cluster, session: Session) -> Fields | None:
    count = cluster.produced.happened()
    if count:
        logger.warning(
            "%s: Produce refused (%d times since this was last said): %s",
            describe(session),
            count,
            _TEXT,
            extra={"event": "produce", "client_host": session.client_host, "requests": count},
        )
    if request.acks == 0:
        return None
    return {"responses": Each(_topic, request.topic_data)}


def _topic(topic: Any) -> Fields:
    return {
        "name": getattr(topic, "name", ""),
        "topic_id": getattr(topic, "topic_id", None),
        "partition_responses": Each(_partition, topic.partition_data),
    }


def _partition(partition: Any) -> Fields:
    return {
        "index": partition.index,
        "error_code": ErrorCode.policy_violation,
        "base_offset": -1,
        "log_append_time": None,
        "log_start_offset": -1,
        "record_errors": [],
        "error_message": _TEXT,
    }


API = NodeApi(0, "Produce", 3, 13, _answer, advertised_minimum=0)
