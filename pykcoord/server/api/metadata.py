"""Metadata (3): the brokers and the catalogue's topics. Never reveals internal topics."""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from pykcoord.catalogue import InvalidTopicError, Topic, check_name
from pykcoord.server.api.errors import error_of
from pykcoord.server.api.messages import NONE, Fields
from pykcoord.server.api.node_api import Cluster, NodeApi
from pykcoord.server.api.topic_fields import (
    NO_AUTHORIZED_OPERATIONS,
    known_topic,
    unknown_topic,
)


def _answer(request: Any, version: int, cluster: Cluster) -> Fields:
    return {
        "brokers": [broker._asdict() for broker in cluster.brokers()],
        "cluster_id": cluster.cluster_id,
        "controller_id": cluster.node_id,
        "topics": _topics(request, version, cluster),
        "cluster_authorized_operations": NO_AUTHORIZED_OPERATIONS,
        "error_code": NONE,
    }


def _topics(request: Any, version: int, cluster: Cluster) -> list[Fields]:
    catalogue = cluster.catalogue
    # v0 has no null: an empty list asks for all topics.
    if request.topics is None or (version == 0 and not request.topics):
        return [_whole(topic, cluster) for topic in catalogue.topics().values()]
    may_create = cluster.auto_create_topics and getattr(request, "allow_auto_topic_creation", True)
    # Each once, as Kafka: a short request must not be able to ask for a huge answer.
    once = {_identity(asked, version): asked for asked in request.topics}
    return [_topic(asked, version, cluster, may_create) for asked in once.values()]


def _is_by_id(asked: Any, version: int) -> bool:
    return asked.name is None or (version >= 12 and asked.topic_id is not None)


def _identity(asked: Any, version: int) -> Any:
    return asked.topic_id if _is_by_id(asked, version) else asked.name


def _topic(asked: Any, version: int, cluster: Cluster, may_create: bool) -> Fields:
    catalogue = cluster.catalogue
    if _is_by_id(asked, version):
        by_id = catalogue.by_id(asked.topic_id) if asked.topic_id is not None else None
        if by_id is None:
            name = None if version >= 12 else ""
            return unknown_topic(name, asked.topic_id, ErrorCode.unknown_topic_id)
        return _whole(by_id, cluster)
    topic = catalogue.topics().get(asked.name)
    if topic is not None:
        return _whole(topic, cluster)
    try:
        check_name(asked.name)
    except InvalidTopicError:
        return unknown_topic(asked.name, None, ErrorCode.invalid_topic_exception)
    if may_create:
        try:
            return _whole(catalogue.create(asked.name, cluster.num_partitions), cluster)
        except Exception as error:
            return unknown_topic(asked.name, None, error_of(error)[0])
    return unknown_topic(asked.name, None, ErrorCode.unknown_topic_or_partition)


def _whole(topic: Topic, cluster: Cluster) -> Fields:
    return known_topic(topic, range(topic.partitions), cluster)


API = NodeApi(3, "Metadata", 0, 13, _answer, repeatable=True)
