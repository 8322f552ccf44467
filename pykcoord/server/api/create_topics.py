"""CreateTopics (19): new names in the catalogue. There is one replica of everything."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kio.schema.errors import ErrorCode

from pykcoord.catalogue import (
    MAX_CREATED_TOPICS,
    MAX_PARTITIONS,
    InvalidPartitionsError,
    TooManyTopicsError,
    Topic,
    TopicExistsError,
    check_name,
    check_partitions,
)
from pykcoord.server._seen import Seen
from pykcoord.server.api.changes import are_all_here, named_twice, once_each, stored_together
from pykcoord.server.api.errors import error_of
from pykcoord.server.api.messages import LOOKED_AT, NONE, PAUSE, Fields
from pykcoord.server.api.node_api import Cluster, NodeApi
from pykcoord.session import Session
from pykcoord.topic_ids import new_id

_MOST_CONFIGS = 1_000  # a topic of Kafka has some thirty
# Of their names and values: they are stored with all topics, whenever one of these changes.
_MOST_CONFIG_CHARACTERS = 8_192
_DEFAULT = -1


def _answer(request: Any, version: int, cluster: Cluster, session: Session) -> Fields:
    return {"topics": _topics(request, cluster)}


def _topics(request: Any, cluster: Cluster) -> Iterator[Fields]:
    twice = yield from named_twice(request.topics)
    partitions = 0
    for number, asked in enumerate(request.topics):
        partitions += max(0, _partitions(asked, cluster))
        if number % LOOKED_AT == 0:
            yield PAUSE
    if partitions > MAX_PARTITIONS:
        # ReplicationControlManager.validateTotalNumberOfPartitions
        text = "Excessively large number of partitions per request."
        for asked in request.topics:
            yield _refused(asked.name, ErrorCode.policy_violation, text)
        return
    elsewhere = Seen()
    for asked in request.topics:
        if not (yield from are_all_here(asked.assignments, cluster.node_id, _index)):
            elsewhere.add(asked.name)
        yield PAUSE
    yield from stored_together(
        cluster.catalogue,
        once_each(
            request.topics,
            twice,
            lambda asked: _create(asked, request.validate_only, elsewhere, cluster),
            _refused,
        ),
        lambda result, code, text: _refused(result["name"], code, text),
    )


def _partitions(asked: Any, cluster: Cluster) -> int:
    """How many it would get; 0 or less where it asks for an impossible number."""
    partitions = len(asked.assignments) or int(asked.num_partitions)
    return cluster.num_partitions if partitions == _DEFAULT else partitions


def _index(assignment: Any) -> int:
    return int(assignment.partition_index)


def _create(asked: Any, validate_only: bool, elsewhere: Seen, cluster: Cluster) -> Fields:
    problem = _problem(asked, elsewhere, cluster)
    if problem is not None:
        return _refused(asked.name, *problem)
    configs = {config.name: config.value or "" for config in asked.configs}
    try:
        topic = _made(asked.name, _partitions(asked, cluster), configs, validate_only, cluster)
    except Exception as error:
        return _refused(asked.name, *error_of(error))
    return {
        "name": topic.name,
        "topic_id": None if validate_only else topic.topic_id,
        "error_code": NONE,
        "error_message": None,
        "num_partitions": topic.partitions,
        "replication_factor": 1,
        "configs": [
            {
                "name": name,
                "value": value,
                "read_only": False,
                "config_source": 1,
                "is_sensitive": False,
            }
            for name, value in configs.items()
        ],
    }


def _made(
    name: str, partitions: int, configs: dict[str, str], validate_only: bool, cluster: Cluster
) -> Topic:
    if not validate_only:
        return cluster.catalogue.create(name, partitions, configs)
    check_name(name)
    if name in cluster.catalogue.topics():
        raise TopicExistsError("name", f"topic {name} exists already")
    if len(cluster.catalogue.topics()) >= MAX_CREATED_TOPICS:
        raise TooManyTopicsError("name", f"at most {MAX_CREATED_TOPICS} topics can be created")
    check_partitions(partitions)
    return Topic(name, new_id(), partitions, configs)


def _problem(asked: Any, elsewhere: Seen, cluster: Cluster) -> tuple[ErrorCode, str] | None:
    """What is wrong with the request itself (ReplicationControlManager.createTopic). `elsewhere`:
    topics with replicas that are not to be had here."""
    if len(asked.configs) > _MOST_CONFIGS:
        return ErrorCode.invalid_config, f"More than {_MOST_CONFIGS} settings of one topic."
    if sum(len(of.name) + len(of.value or "") for of in asked.configs) > _MOST_CONFIG_CHARACTERS:
        text = f"More than {_MOST_CONFIG_CHARACTERS} characters of settings of one topic."
        return ErrorCode.invalid_config, text
    if not asked.assignments:
        if asked.replication_factor not in (_DEFAULT, 1):
            return (
                ErrorCode.invalid_replication_factor,
                f"Unable to replicate the partition {asked.replication_factor} time(s): "
                "only 1 broker(s) are registered.",
            )
        if asked.num_partitions != _DEFAULT:
            try:
                check_partitions(asked.num_partitions)
            except InvalidPartitionsError as error:
                return ErrorCode.invalid_partitions, error.reason
        return None
    if asked.num_partitions != _DEFAULT or asked.replication_factor != _DEFAULT:
        return (
            ErrorCode.invalid_request,
            "A manual partition assignment was specified, but numPartitions or "
            "replicationFactor was not set to -1.",
        )
    if elsewhere.has(asked.name):
        return (
            ErrorCode.invalid_replica_assignment,
            f"Each partition, from 0 on, must have broker {cluster.node_id} as its one replica.",
        )
    return None


def _refused(name: str, error: ErrorCode, text: str) -> Fields:
    return {
        "name": name,
        "topic_id": None,
        "error_code": error,
        "error_message": text,
        "num_partitions": -1,
        "replication_factor": -1,
        "configs": [],
    }


API = NodeApi(19, "CreateTopics", 2, 7, _answer)
