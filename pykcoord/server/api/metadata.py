"""Metadata (3): the brokers and the catalogue's topics; that of group events if it is named."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kio.schema.errors import ErrorCode

from pykcoord.catalogue import InvalidTopicError, Topic, TopicExistsError, check_name
from pykcoord.server._seen import Seen
from pykcoord.server.api.changes import stored_together
from pykcoord.server.api.errors import error_of
from pykcoord.server.api.messages import NONE, PAUSE, Each, Fields
from pykcoord.server.api.node_api import Cluster, NodeApi
from pykcoord.server.api.topic_fields import (
    NO_AUTHORIZED_OPERATIONS,
    known_topic,
    unknown_topic,
)
from pykcoord.session import Session


def _answer(request: Any, version: int, cluster: Cluster, session: Session) -> Fields:
    return {
        "brokers": [broker._asdict() for broker in cluster.brokers()],
        "cluster_id": cluster.cluster_id,
        "controller_id": cluster.controller_id,
        "topics": _topics(request, version, cluster),
        "cluster_authorized_operations": NO_AUTHORIZED_OPERATIONS,
        "error_code": NONE,
    }


def _topics(request: Any, version: int, cluster: Cluster) -> Iterable[Fields]:
    catalogue = cluster.catalogue
    # v0 has no null: an empty list asks for all topics.
    if request.topics is None or (version == 0 and not request.topics):
        return Each(lambda topic: _whole(topic, cluster), list(catalogue.topics().values()))
    may_create = cluster.auto_create_topics and getattr(request, "allow_auto_topic_creation", True)
    told = _asked(request, version, cluster, may_create)
    if not may_create:
        return told

    def not_stored(result: Fields, code: ErrorCode, text: str) -> Fields:
        was_there = result["name"] in catalogue.topics()
        return result if was_there else unknown_topic(result["name"], None, code)

    return stored_together(catalogue, told, not_stored)


def _asked(request: Any, version: int, cluster: Cluster, may_create: bool) -> Iterator[Fields]:
    """Each once, as Kafka: a short request must not be able to ask for a huge answer."""
    told = Seen(len(request.topics))
    for asked in request.topics:
        by_id = _is_by_id(asked, version)
        topic_id = asked.topic_id.bytes if by_id and asked.topic_id is not None else None
        if told.add(topic_id if by_id else asked.name, by_id):
            yield _topic(asked, version, cluster, may_create)
        else:
            yield PAUSE


def _is_by_id(asked: Any, version: int) -> bool:
    return asked.name is None or (version >= 12 and asked.topic_id is not None)


def _topic(asked: Any, version: int, cluster: Cluster, may_create: bool) -> Fields:
    catalogue = cluster.catalogue
    if _is_by_id(asked, version):
        by_id = cluster.topic_by_id(asked.topic_id)
        if by_id is None:
            name = None if version >= 12 else ""
            return unknown_topic(name, asked.topic_id, ErrorCode.unknown_topic_id)
        return _whole(by_id, cluster)
    topic = cluster.topic(asked.name)
    if topic is not None:
        return _whole(topic, cluster)
    try:
        check_name(asked.name)
    except InvalidTopicError:
        return unknown_topic(asked.name, None, ErrorCode.invalid_topic_exception)
    if may_create:
        try:
            return _whole(catalogue.create(asked.name, cluster.num_partitions), cluster)
        except TopicExistsError:  # another request has it stored at this moment
            return unknown_topic(asked.name, None, ErrorCode.leader_not_available)
        except Exception as error:
            return unknown_topic(asked.name, None, error_of(error)[0])
    return unknown_topic(asked.name, None, ErrorCode.unknown_topic_or_partition)


def _whole(topic: Topic, cluster: Cluster) -> Fields:
    return known_topic(topic, range(topic.partitions), cluster)


API = NodeApi(3, "Metadata", 0, 13, _answer, repeatable=True)
