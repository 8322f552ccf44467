"""A server under test together with the topics on it. Must never depend on which server it is."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from support.asked import METADATA, Asked
from support.kafka import jars
from support.kafka.broker import KafkaBroker
from support.server import PykcoordServer
from support.several import SEVERAL, MembersServer, NodesServer

Server = PykcoordServer | KafkaBroker | NodesServer | MembersServer

_NAMES = itertools.count(1)
_TIMEOUT_S = 60.0
# That a broker was killed while it was asked.
_AWAY = (KafkaError._DESTROY_BROKER, KafkaError._TRANSPORT)
_Answer = TypeVar("_Answer")


class Cluster:
    """Topics are made through Kafka's own admin requests, as an operator would."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._admin = AdminClient(self._quiet())

    @property
    def address(self) -> str:
        return self.server.address

    @property
    def is_several(self) -> bool:
        """Whether there are nodes, of which one may be away."""
        return "," in self.address

    @property
    def holds_records(self) -> bool:
        """Whether topics can be given records; pykcoord's are always empty."""
        return self.server.name == "kafka"

    def create_topic(self, partitions: int, prefix: str = "topic", *, records: int = 0) -> str:
        """Creates a topic of a new name; `records` in each partition, where it can hold any."""
        topic = f"{prefix}-{next(_NAMES)}"
        self._create(topic, partitions)
        self._await_partitions(topic, partitions)
        if records and self.holds_records:
            self._produce(topic, partitions, records)
        return topic

    def raise_partitions(self, topic: str, partitions: int) -> None:
        def raised() -> None:
            wanted = [NewPartitions(topic, partitions)]
            self._admin.create_partitions(wanted)[topic].result(_TIMEOUT_S)

        _whatever_becomes_of_the_broker(raised, done=KafkaError.INVALID_PARTITIONS)

    def log_bounds(self, topic: str, partition: int) -> tuple[int, int]:
        """Returns the offsets that `earliest` and `latest` stand for."""
        consumer = Consumer({**self._quiet(), "group.id": "log-bounds"})
        at = TopicPartition(topic, partition)
        try:
            bounds = _whatever_becomes_of_the_broker(
                lambda: consumer.get_watermark_offsets(at, _TIMEOUT_S)
            )
        finally:
            consumer.close()
        assert bounds is not None
        return bounds

    def _quiet(self) -> dict[str, Any]:
        """librdkafka writes to stderr when a server is killed, as tests do, unless it may not."""
        return {"bootstrap.servers": self.address, "log_level": 0, "error_cb": lambda error: None}

    def _create(self, topic: str, partitions: int) -> None:
        def created() -> None:
            creation = self._admin.create_topics([NewTopic(topic, partitions, 1)])
            creation[topic].result(_TIMEOUT_S)

        _whatever_becomes_of_the_broker(created, done=KafkaError.TOPIC_ALREADY_EXISTS)

    def _await_partitions(self, topic: str, partitions: int) -> None:
        """A broker's metadata follows its controller with a delay; there is no event for it."""
        deadline = time.monotonic() + _TIMEOUT_S
        for address in self.address.split(","):
            while _partitions_at(address, topic) != partitions:
                assert time.monotonic() < deadline, f"{topic} did not appear at {address}"
                time.sleep(0.02)

    def _produce(self, topic: str, partitions: int, records: int) -> None:
        producer = Producer({**self._quiet(), "linger.ms": 1})
        for partition in range(partitions):
            for record in range(records):
                producer.produce(topic, str(record), partition=partition)
        assert producer.flush(_TIMEOUT_S) == 0, f"{topic}: not all records were taken"


def _whatever_becomes_of_the_broker(ask: Callable[[], _Answer], done: int = 0) -> _Answer | None:
    """What `ask` returns, once a broker lives that long; None if it says `done`: then an earlier
    answer was lost."""
    deadline, attempts = time.monotonic() + _TIMEOUT_S, 0
    while True:
        attempts += 1
        try:
            return ask()
        except KafkaException as error:
            code = error.args[0].code()
            if code == done and attempts > 1:
                return None
            if code not in _AWAY or time.monotonic() > deadline:
                raise
        time.sleep(0.02)


def _partitions_at(address: str, topic: str) -> int:
    """How many this broker knows, and no other: an admin client asks any of them. None of one that
    is away."""
    wanted = {"topics": [{"name": topic}], "allow_auto_topic_creation": False}
    try:
        with Asked(address) as asked:
            return len(asked.ask(METADATA, 4, **wanted).topics[0].partitions)
    except OSError:
        return 0


def new_server(
    request: pytest.FixtureRequest,
    directory: Path,
    topics: Mapping[str, int] | None = None,
    settings: Mapping[str, str] | None = None,
) -> Server:
    """Returns the server that `--server` names, not yet started."""
    kind = request.config.getoption("--server")
    if kind == "pykcoord":
        return PykcoordServer(directory, topics=topics, settings=settings)
    if kind in SEVERAL:
        return SEVERAL[kind](directory, topics, settings)
    if (reason := jars.missing_tool_chain()) is not None:
        pytest.skip(reason)
    return KafkaBroker(directory, topics=topics, settings=settings)


def new_group(prefix: str = "group") -> str:
    """Returns a group id that no other test of this session uses."""
    return f"{prefix}-{next(_NAMES)}"
