"""DeleteTopics (20): names or ids out of the catalogue."""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from pykcoord.server.api.errors import error_of, stored_together
from pykcoord.server.api.messages import NONE, Fields
from pykcoord.server.api.node_api import Cluster, NodeApi


def _answer(request: Any, version: int, cluster: Cluster) -> Fields:
    if version < 6:
        asked = [(name, None) for name in request.topic_names]
    else:
        asked = [(topic.name, topic.topic_id) for topic in request.topics]
    responses = stored_together(
        cluster.catalogue,
        (_delete(name, topic_id, cluster) for name, topic_id in asked),
        lambda result, code, text: _result(result["name"], result["topic_id"], code, text),
    )
    return {"responses": responses}


def _delete(name: str | None, topic_id: Any, cluster: Cluster) -> Fields:
    catalogue = cluster.catalogue
    if (name is None) == (topic_id is None):
        text = "You may not specify both topic name and topic id."
        if name is None:
            text = "Neither topic name nor id were specified."
        return _result(name, topic_id, ErrorCode.invalid_request, text)
    if name is None:
        topic = catalogue.by_id(topic_id)
        if topic is None:
            text = "This server does not host this topic ID."
            return _result(None, topic_id, ErrorCode.unknown_topic_id, text)
    else:
        topic = catalogue.topics().get(name)
        if topic is None:
            text = "This server does not host this topic-partition."
            return _result(name, None, ErrorCode.unknown_topic_or_partition, text)
    try:
        catalogue.delete(topic.name)
    except Exception as error:
        return _result(topic.name, topic.topic_id, *error_of(error))
    return _result(topic.name, topic.topic_id, NONE, None)


def _result(name: str | None, topic_id: Any, error: ErrorCode, text: str | None) -> Fields:
    return {"name": name, "topic_id": topic_id, "error_code": error, "error_message": text}


API = NodeApi(20, "DeleteTopics", 1, 6, _answer)
