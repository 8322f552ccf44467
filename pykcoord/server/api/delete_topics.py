"""DeleteTopics (20): names or ids out of the catalogue."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from pykcoord.catalogue import UnknownTopicError
from pykcoord.server._seen import Seen
from pykcoord.server.api.changes import stored_together
from pykcoord.server.api.errors import error_of
from pykcoord.server.api.messages import LOOKED_AT, NONE, PAUSE, Fields
from pykcoord.server.api.node_api import Cluster, NodeApi
from pykcoord.session import Session


def _answer(request: Any, version: int, cluster: Cluster, session: Session) -> Fields:
    return {"responses": _responses(request, version, cluster)}


def _responses(request: Any, version: int, cluster: Cluster) -> Iterator[Fields]:
    named, twice = Seen(_count(request, version)), Seen()
    for number, (name, topic_id) in enumerate(_asked(request, version)):
        is_either = (name is None) != (topic_id is None)
        if is_either and not named.add(*_identity(name, topic_id)):
            twice.add(*_identity(name, topic_id))
        if number % LOOKED_AT == 0:
            yield PAUSE
    yield from stored_together(
        cluster.catalogue,
        _deleted(request, version, twice, cluster),
        lambda result, code, text: _result(result["name"], result["topic_id"], code, text),
    )


def _count(request: Any, version: int) -> int:
    return len(request.topic_names if version < 6 else request.topics)


def _asked(request: Any, version: int) -> Iterator[tuple[str | None, UUID | None]]:
    if version < 6:
        return ((name, None) for name in request.topic_names)
    return ((topic.name, topic.topic_id) for topic in request.topics)


def _identity(name: str | None, topic_id: UUID | None) -> tuple[str | bytes | None, int]:
    return (name, 0) if name is not None or topic_id is None else (topic_id.bytes, 1)


def _deleted(request: Any, version: int, twice: Seen, cluster: Cluster) -> Iterator[Fields]:
    """What is named twice is refused, in one result, and not deleted (ControllerApis)."""
    told = Seen()
    for name, topic_id in _asked(request, version):
        identity = _identity(name, topic_id)
        if (name is None) == (topic_id is None) or not twice.has(*identity):
            yield _delete(name, topic_id, cluster)
        elif told.add(*identity):
            text = f"Duplicate topic {'name' if topic_id is None else 'id'}."
            yield _result(name, topic_id, ErrorCode.invalid_request, text)
        else:
            yield PAUSE


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
            return _unknown_id(topic_id)
    else:
        topic = catalogue.topics().get(name)
        if topic is None:
            text = "This server does not host this topic-partition."
            return _result(name, None, ErrorCode.unknown_topic_or_partition, text)
    try:
        catalogue.delete(topic.name, topic_id)
    except UnknownTopicError as error:
        if topic_id is not None:
            return _unknown_id(topic_id)
        return _result(topic.name, topic.topic_id, *error_of(error))
    except Exception as error:
        return _result(topic.name, topic.topic_id, *error_of(error))
    return _result(topic.name, topic.topic_id, NONE, None)


def _unknown_id(topic_id: Any) -> Fields:
    text = "This server does not host this topic ID."
    return _result(None, topic_id, ErrorCode.unknown_topic_id, text)


def _result(name: str | None, topic_id: Any, error: ErrorCode, text: str | None) -> Fields:
    return {"name": name, "topic_id": topic_id, "error_code": error, "error_message": text}


API = NodeApi(20, "DeleteTopics", 1, 6, _answer)
