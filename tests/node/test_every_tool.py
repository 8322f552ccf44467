"""Kafka's own tools say the same of a cluster before a node is in it, at a broker while the node
leads, and at the node. Long: `make test-kafka`."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from support.kafka.broker import KafkaBroker
from support.kafka.tools import tool

from pykcoord._native import partition_of

from .test_real_cluster import _bootstrap, _kafka, _leaders, _node, brokers

__all__ = ["brokers"]

pytestmark = [pytest.mark.java, pytest.mark.client, pytest.mark.timeout(1500)]

_ID = 140
_TOPIC, _LIVING, _EMPTY, _PRODUCER = "tooled", "tooled-living", "tooled-empty", "tooled-producer"
_WAIT_S = 60.0
_OF_GROUP = ("--describe", "--group", _LIVING)
_OF_PARTITION = ("--topic", _TOPIC, "--partition", "0")
_NUMBER = str(partition_of(_EMPTY, 10))


def _questions(placement: Path) -> dict[str, list[str]]:
    """What is asked, as words after the tool's name and its bootstrap server."""
    return {
        "topics list": ["topics", "--list"],
        "topics": ["topics", "--describe", "--topic", _TOPIC],
        "topics in trouble": ["topics", "--describe", "--under-replicated-partitions"],
        "groups": ["consumer-groups", "--list", "--state"],
        "groups of a type": ["consumer-groups", "--list", "--type", "classic"],
        "offsets": ["consumer-groups", *_OF_GROUP, "--offsets"],
        "offsets of nobody": ["consumer-groups", "--describe", "--group", _EMPTY],
        "members": ["consumer-groups", *_OF_GROUP, "--members", "--verbose"],
        "state": ["consumer-groups", *_OF_GROUP, "--state"],
        "reset": [
            "consumer-groups", "--group", _EMPTY, "--topic", _TOPIC, "--reset-offsets",
            "--to-earliest", "--dry-run",
        ],
        "reassignments": ["reassign-partitions", "--list"],
        "placement": [
            "reassign-partitions", "--verify", "--reassignment-json-file", str(placement),
        ],
        "quorum": ["metadata-quorum", "describe", "--status"],
        "replication": ["metadata-quorum", "describe", "--replication"],
        "settings": [
            "configs", "--describe", "--all", "--entity-type", "topics", "--entity-name", _TOPIC,
        ],
        "settings of groups": [
            "configs", "--describe", "--entity-type", "topics",
            "--entity-name", "__consumer_offsets",
        ],
        "settings of a broker": [
            "configs", "--describe", "--all", "--entity-type", "brokers", "--entity-name", "1",
        ],
        "transactions": ["transactions", "list"],
        "transaction": ["transactions", "describe", "--transactional-id", _PRODUCER],
        "producers": ["transactions", "describe-producers", *_OF_PARTITION],
        "producers of offsets": [
            "transactions", "describe-producers", "--topic", "__consumer_offsets",
            "--partition", _NUMBER,
        ],
        "hanging": ["transactions", "find-hanging", *_OF_PARTITION],
        "ends": ["get-offsets", "--topic", _TOPIC],
    }  # fmt: skip


def _answers(address: str, questions: dict[str, list[str]]) -> dict[str, list[str]]:
    """Lines without what is time, or where a partition is led; sorted, as tools do not."""
    return {
        name: _plain(name, tool(words[0], "--bootstrap-server", address, *words[1:]))
        for name, words in questions.items()
    }


def _plain(name: str, text: str) -> list[str]:
    lines = [re.sub(r"\s+", " ", line).strip() for line in text.splitlines()]
    if name == "state":  # COORDINATOR (ID) is what moved
        lines = [re.sub(r"\S+:\d+ \(\d+\)", "COORDINATOR", line) for line in lines]
    if name == "quorum":
        told = ("ClusterId", "LeaderId", "CurrentVoters")
        lines = [line for line in lines if line.startswith(told)]
    if name == "placement":  # all brokers are named there, the node too
        lines = [line.replace(f",{_ID}", "") for line in lines]
    if name == "replication":  # who is there, and as what
        lines = [" ".join((*line.split()[:1], line.split()[-1])) for line in lines if line]
    if name.startswith(("transaction", "producers")):  # no times
        lines = [re.sub(r" \d{10,}( \d+(?= __))?| \d+$", "", line) for line in lines]
    if name == "producers of offsets":  # coordinator and leader epochs are those of the leader
        lines = [" ".join(line.split()[:2]) for line in lines]
    return sorted(line for line in lines if line)


@contextmanager
def _what_is_asked_about(bootstrap: str) -> Iterator[None]:
    """A topic with records, a group with a member, one without, and an open transaction."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(_TOPIC, 3, 3)])[_TOPIC].result(60)
    time.sleep(1.0)
    plain = Producer({"bootstrap.servers": bootstrap})
    for number in range(30):
        plain.produce(_TOPIC, b"record", partition=number % 3)
    assert plain.flush(_WAIT_S) == 0
    consumer, nobody = (
        Consumer({"bootstrap.servers": bootstrap, "group.id": group, "client.id": "tooled"})
        for group in (_LIVING, _EMPTY)
    )
    consumer.subscribe([_TOPIC])
    deadline = time.monotonic() + _WAIT_S
    while not consumer.assignment():
        consumer.poll(0.1)
        assert time.monotonic() < deadline
    consumer.pause(consumer.assignment())
    consumer.commit(offsets=[TopicPartition(_TOPIC, 1, 4)], asynchronous=False)
    nobody.commit(offsets=[TopicPartition(_TOPIC, 0, 3)], asynchronous=False)
    producer = Producer(
        {
            "bootstrap.servers": bootstrap, "transactional.id": _PRODUCER,
            "transaction.timeout.ms": 900_000,
        }
    )  # fmt: skip
    producer.init_transactions(_WAIT_S)
    producer.begin_transaction()
    producer.produce(_TOPIC, b"record", partition=0)
    metadata = nobody.consumer_group_metadata()
    producer.send_offsets_to_transaction([TopicPartition(_TOPIC, 2, 5)], metadata, _WAIT_S)
    assert producer.flush(_WAIT_S) == 0
    try:
        yield
        producer.commit_transaction(_WAIT_S)
        found = nobody.committed([TopicPartition(_TOPIC, one) for one in (0, 2)], _WAIT_S)
        assert [one.offset for one in found] == [3, 5]
    finally:
        consumer.close()
        nobody.close()


def test_tools_say_the_same_with_a_node_and_without(
    brokers: list[KafkaBroker], tmp_path: Path
) -> None:
    placement = tmp_path / "placement.json"
    with _what_is_asked_about(_bootstrap(brokers)):
        topic = AdminClient({"bootstrap.servers": _bootstrap(brokers)}).list_topics(timeout=30)
        placed = [
            {"topic": _TOPIC, "partition": number, "replicas": of.replicas}
            for number, of in topic.topics[_TOPIC].partitions.items()
        ]
        placement.write_text(json.dumps({"version": 1, "partitions": placed}))
        questions = _questions(placement)
        before = _answers(brokers[0].address, questions)
        assert all(before[name] for name in questions.keys() - _SILENT), before
        with _node(brokers, tmp_path / "node", _ID).start() as node:
            assert _kafka(brokers, "take", node_id=_ID) == 0
            assert _leaders(brokers, _ID) == {_ID}
            for address in (brokers[1].address, node.address):
                found = _answers(address, questions)
                assert f"{_ID} Observer" in found["replication"]
                found["replication"].remove(f"{_ID} Observer")
                other = {
                    name: (before[name], lines)
                    for name, lines in found.items()
                    if lines != before[name]
                }
                assert other == {}, address
            _change_with_tools(node.address)
            assert _kafka(brokers, "return", node_id=_ID) == 0


# What is in order has no line.
_SILENT = {"topics in trouble", "hanging"}


def _change_with_tools(address: str) -> None:
    """What a tool changes at the node is changed in the cluster."""
    reset = tool(
        "consumer-groups", "--bootstrap-server", address, "--group", _EMPTY, "--topic",
        f"{_TOPIC}:1", "--reset-offsets", "--to-offset", "7", "--execute",
    )  # fmt: skip
    assert re.search(rf"{_EMPTY} +{_TOPIC} +1 +7", reset), reset
    told = tool("consumer-groups", "--bootstrap-server", address, "--describe", "--group", _EMPTY)
    assert re.search(rf"{_EMPTY} +{_TOPIC} +1 +7 ", told), told
    tool(
        "consumer-groups", "--bootstrap-server", address, "--group", _EMPTY, "--topic",
        f"{_TOPIC}:1", "--delete-offsets",
    )  # fmt: skip
    tool(
        "configs", "--bootstrap-server", address, "--alter", "--entity-type", "topics",
        "--entity-name", _TOPIC, "--add-config", "retention.ms=600000000",
    )  # fmt: skip
    tool("topics", "--bootstrap-server", address, "--alter", "--topic", _TOPIC, "--partitions", "4")
    listed = tool("topics", "--bootstrap-server", address, "--describe", "--topic", _TOPIC)
    assert "PartitionCount: 4" in listed
    assert "retention.ms=600000000" in listed
