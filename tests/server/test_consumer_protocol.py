"""Consumers of `group.protocol=consumer` (KIP-848) over TCP, alone and beside classic members."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import kafka
import pytest
from confluent_kafka import Consumer, ConsumerGroupType, TopicPartition
from confluent_kafka.admin import AdminClient
from support.confluent import SECONDS, poll_until
from support.server import PykcoordServer

pytestmark = pytest.mark.client


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PykcoordServer]:
    settings = {
        "group.consumer.heartbeat.interval.ms": "300",
        "group.consumer.session.timeout.ms": "10000",
        "group.initial.rebalance.delay.ms": "300",
    }
    with PykcoordServer(tmp_path / "data", topics={"orders": 6}, settings=settings) as server:
        yield server


@contextlib.contextmanager
def consuming(server: PykcoordServer, **more: str) -> Iterator[Consumer]:
    consumer = Consumer(
        {
            "bootstrap.servers": server.address,
            "group.id": "g",
            "group.protocol": "consumer",
            "enable.auto.commit": False,
            "reconnect.backoff.max.ms": 500,
            **more,
        }
    )
    consumer.subscribe(["orders"])
    try:
        yield consumer
    finally:
        consumer.close()


def owned(consumer: Consumer) -> set[int]:
    return {at.partition for at in consumer.assignment()}


def shared(consumers: list[Consumer]) -> bool:
    """Each partition has one owner, and all have as many."""
    shares = [owned(consumer) for consumer in consumers]
    is_whole = sorted(number for share in shares for number in share) == list(range(6))
    return is_whole and {len(share) for share in shares} == {6 // len(consumers)}


def test_members_share_partitions_and_the_rest_get_those_of_one_that_leaves(
    server: PykcoordServer,
) -> None:
    with consuming(server) as first:
        poll_until([first], lambda: shared([first]))
        with consuming(server) as second:
            poll_until([first, second], lambda: shared([first, second]))
            with consuming(server) as third:
                poll_until([first, second, third], lambda: shared([first, second, third]))
            poll_until([first, second], lambda: shared([first, second]))
        poll_until([first], lambda: shared([first]))


def test_commits_and_the_group_survive_kill_9(server: PykcoordServer) -> None:
    with consuming(server) as consumer:
        poll_until([consumer], lambda: shared([consumer]))
        consumer.commit(offsets=[TopicPartition("orders", 3, 42)], asynchronous=False)
        server.kill()
        server.start()
        (found,) = consumer.committed([TopicPartition("orders", 3)], timeout=SECONDS)
        assert found.offset == 42
        consumer.commit(offsets=[TopicPartition("orders", 3, 43)], asynchronous=False)
        assert shared([consumer]), "the member is in its group as before"
    with consuming(server) as another:
        poll_until([another], lambda: shared([another]))
        (found,) = another.committed([TopicPartition("orders", 3)], timeout=SECONDS)
        assert found.offset == 43


def test_a_static_member_comes_back_to_its_partitions(server: PykcoordServer) -> None:
    instance = {"group.instance.id": "i"}
    with consuming(server) as first:
        with consuming(server, **instance) as second:
            poll_until([first, second], lambda: shared([first, second]))
            before = owned(second)
        with consuming(server, **instance) as again:
            poll_until([first, again], lambda: shared([first, again]))
            assert owned(again) == before


def test_a_regular_expression_finds_topics(server: PykcoordServer) -> None:
    with consuming(server) as consumer:
        consumer.unsubscribe()
        consumer.subscribe(["^ord.*"])
        poll_until([consumer], lambda: shared([consumer]))


@contextlib.contextmanager
def consuming_with_kafka_python(server: PykcoordServer) -> Iterator[kafka.KafkaConsumer]:
    consumer = kafka.KafkaConsumer(
        "orders",
        bootstrap_servers=server.address,
        group_id="g",
        enable_auto_commit=False,
        heartbeat_interval_ms=300,
    )
    try:
        yield consumer
    finally:
        consumer.close()


def own_all(python: kafka.KafkaConsumer, *librdkafka: Consumer) -> bool:
    """Each partition has one owner, and everybody has as many."""
    shares = [{at.partition for at in python.assignment()}, *(owned(one) for one in librdkafka)]
    is_whole = sorted(number for share in shares for number in share) == list(range(6))
    return is_whole and {len(share) for share in shares} == {6 // len(shares)}


def poll_both_until(
    condition: Callable[[], object], python: kafka.KafkaConsumer, *librdkafka: Consumer
) -> None:
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end, [python.assignment(), *map(owned, librdkafka)]
        assert python.poll(500) == {}
        for consumer in librdkafka:
            message = consumer.poll(0.05)
            assert message is None, message.error()


def test_a_group_moves_to_the_consumer_protocol_and_back(server: PykcoordServer) -> None:
    admin = AdminClient({"bootstrap.servers": server.address})

    def group_type() -> ConsumerGroupType:
        (group,) = admin.list_consumer_groups().result(SECONDS).valid
        return group.type

    classic = {"group.protocol": "classic", "heartbeat.interval.ms": "300"}
    with consuming_with_kafka_python(server) as staying:
        with consuming(server, **classic) as moving:
            poll_both_until(lambda: own_all(staying, moving), staying, moving)
            assert group_type() == ConsumerGroupType.CLASSIC
        with consuming(server) as moved:
            poll_both_until(lambda: own_all(staying, moved), staying, moved)
            assert group_type() == ConsumerGroupType.CONSUMER
            partition = min(staying.assignment())
            staying.commit({partition: kafka.OffsetAndMetadata(42, "", -1)})
        poll_both_until(lambda: own_all(staying), staying)
        assert group_type() == ConsumerGroupType.CLASSIC
        assert staying.committed(partition) == 42
