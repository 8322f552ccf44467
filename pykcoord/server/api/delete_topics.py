"""DeleteTopics (20): names or ids out of the catalogue."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kio.schema.errors import ErrorCode

from pykcoord.server.api.changes import stored_together
from pykcoord.server.api.errors import error_of
from pykcoord.server.api.messages import NONE, Fields
from pykcoord.server.api.node_api import Cluster, NodeApi
from pykcoord.session import Session


def _answer(request: Any, version: int, cluster: Cluster, session: Session) -> Fields:
    responses = stored_together(
        cluster.catalogue,
        _deleted(request, version, cluster),
        lambda result, code, text: _result(result["name"], result["topic_id"], code, text),
    )
    return {"responses": responses}


def _deleted(request: Any, version: int, cluster: Cluster) -> Iterator[Fields]:
    if version < 6:
        for name in request.topic_names:
            yield _delete(name, None, cluster)
        return
    for topic in request.topics:
        yield _delete(topic.name, topic.topic_id, cluster)


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
