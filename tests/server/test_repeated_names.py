"""Topics, partitions, groups and resources that one request names twice. What is expected is what
Kafka 4.3.1 answered to the same requests, but for what a docstring says."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from support.kio_client import ask

from .conftest import serving
from .test_node_apis import MS, metadata, new_topic, topic_named

INVALID_REQUEST = 42
FETCH = {
    "replica_id": -1, "max_wait": MS, "min_bytes": 1, "max_bytes": 1000, "isolation_level": 0,
    "session_id": 0, "session_epoch": -1, "rack_id": "", "forgotten_topics_data": [],
}  # fmt: skip


def answers(run: Any, *requests: tuple[int, int, dict[str, Any]]) -> list[Any]:
    found: list[Any] = []

    async def main() -> None:
        async with serving(topics={"orders": 12, "b": 1}) as rig:
            client = await rig.connect()
            for key, version, fields in requests:
                found.append(await ask(client, key, version, **fields))

    run(main())
    return found


def told(results: Iterable[Any]) -> list[tuple[Any, int, str | None]]:
    return [(one.name, one.error_code.value, one.error_message) for one in results]


def test_a_key_is_answered_each_time(run):
    (found,) = answers(run, (10, 4, {"key_type": 0, "coordinator_keys": ("g", "h", "g")}))
    assert [one.key for one in found.coordinators] == ["g", "h", "g"]


def test_a_topic_is_described_once(run):
    topics = [topic_named(name) for name in ("orders", "nope", "orders", "nope")]
    page = {"topics": [{"name": n} for n in ("orders", "nope", "orders")], "cursor": None}
    found, paged = answers(
        run, (3, 9, metadata(topics)), (75, 0, {**page, "response_partition_limit": 100})
    )
    assert sorted(one.name for one in found.topics) == ["nope", "orders"]
    assert [one.name for one in paged.topics] == ["nope", "orders"]


def test_the_settings_of_a_resource_are_told_once(run):
    """Kafka tells them each time: an answer of any size to a short request."""
    asked = {"resource_type": 2, "resource_name": "orders", "configuration_keys": None}
    fields = {"include_synonyms": False, "include_documentation": False}
    (found,) = answers(run, (32, 4, {"resources": [asked] * 3, **fields}))
    assert [one.resource_name for one in found.results] == ["orders"]


def test_a_topic_is_not_created_and_the_others_are(run):
    fields = {"timeout": MS, "validate_only": False}
    topics = [new_topic("new"), new_topic("other"), new_topic("new"), new_topic("new")]
    found, after = answers(run, (19, 5, {"topics": topics, **fields}), (3, 9, metadata(None)))
    assert sorted(told(found.topics)) == [
        ("new", INVALID_REQUEST, "Duplicate topic name."),
        ("other", 0, None),
    ]
    assert sorted(one.name for one in after.topics) == ["b", "orders", "other"]


def test_a_topic_is_not_grown_and_the_others_are(run):
    asked = [{"name": n, "count": c, "assignments": None} for n, c in (("b", 3), ("orders", 20))]
    fields = {"topics": [*asked, asked[0]], "timeout": MS, "validate_only": False}
    found, after = answers(run, (37, 1, fields), (3, 9, metadata(None)))
    assert sorted(told(found.results)) == [
        ("b", INVALID_REQUEST, "Duplicate topic name."),
        ("orders", 0, None),
    ]
    assert {one.name: len(one.partitions) for one in after.topics} == {"b": 1, "orders": 20}


@pytest.mark.parametrize("v", [5, 6])
def test_a_topic_is_not_deleted_by_a_name_that_comes_twice(run, v):
    names = ("b", "nope", "b", "nope", "orders")
    topics = [{"name": name, "topic_id": None} for name in names]
    request = {"topic_names": names, "topics": topics, "timeout": MS}
    found, after = answers(run, (20, v, request), (3, 9, metadata(None)))
    assert sorted(told(found.responses)) == [
        ("b", INVALID_REQUEST, "Duplicate topic name."),
        ("nope", INVALID_REQUEST, "Duplicate topic name."),
        ("orders", 0, None),
    ]
    assert [one.name for one in after.topics] == ["b"]


def test_a_topic_is_not_deleted_by_an_id_that_comes_twice(run):
    async def main():
        async with serving(topics={"orders": 12, "b": 1}) as rig:
            client = await rig.connect()
            ids = [rig.catalogue.topics()[name].topic_id for name in ("b", "orders", "b")]
            topics = [{"name": None, "topic_id": one} for one in (*ids, None, None)]
            found = await ask(client, 20, 6, topics=topics, timeout=MS)
            assert [(one.topic_id, one.error_message) for one in found.responses] == [
                (ids[0], "Duplicate topic id."),
                (ids[1], None),
                (None, "Neither topic name nor id were specified."),
                (None, "Neither topic name nor id were specified."),
            ]
            assert list(rig.catalogue.topics()) == ["b"]

    run(main())


@pytest.mark.parametrize("is_one_topic", [True, False])
def test_the_end_of_a_partition_is_an_invalid_request(run, is_one_topic):
    """Kafka puts the partitions of a topic that comes twice into one; here the second is empty."""
    asked = [{"partition_index": n, "timestamp": -1, "current_leader_epoch": -1} for n in (0, 1, 0)]
    topics = [{"name": "orders", "partitions": [one]} for one in asked]
    if is_one_topic:
        topics = [{"name": "orders", "partitions": asked}]
    fields = {"replica_id": -1, "isolation_level": 0, "topics": topics}
    (found,) = answers(run, (2, 5, fields))
    partitions = [one for topic in found.topics for one in topic.partitions]
    assert [(one.partition_index, one.error_code.value) for one in partitions] == [
        (0, INVALID_REQUEST),
        (1, 0),
    ]


def test_a_partition_is_fetched_once(run):
    """Kafka names a topic that comes twice once; here the second is empty."""
    asked = {
        "partition": 0, "current_leader_epoch": -1, "fetch_offset": 0, "log_start_offset": -1,
        "partition_max_bytes": 1,
    }  # fmt: skip
    topics = [{"topic": "orders", "partitions": [asked] * 2}] * 2
    (found,) = answers(run, (1, 11, {**FETCH, "topics": topics}))
    assert [len(topic.partitions) for topic in found.responses] == [1, 0]


def test_an_epoch_is_answered_each_time(run):
    asked = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}
    topics = [{"topic": "orders", "partitions": [asked] * 2}] * 2
    (found,) = answers(run, (23, 3, {"replica_id": -1, "topics": topics}))
    assert [len(topic.partitions) for topic in found.topics] == [2, 2]
