"""Group consumers of three libraries over TCP: what needs the node APIs and the core together."""

from __future__ import annotations

import asyncio
import secrets
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioTopicPartition
from confluent_kafka import Consumer, TopicPartition
from kafka import KafkaConsumer
from support.confluent import SECONDS, poll_until
from support.waiting import eventually

from pykcoord._native import Node
from pykcoord.config import Config

from .conftest import serving
from .test_admin_clients import blocking, bootstrap

pytestmark = pytest.mark.client


def made() -> Node:
    # kafka-python asks for a topic's partitions 100 ms after it subscribed, and as a leader that
    # has joined before that assigns none: Kafka's initial delay hides it, so keep some of it.
    config = Config(group_initial_rebalance_delay_ms=300)
    return Node(config.native(), 3, secrets.token_bytes(32))


def confluent(address: str, **more: Any) -> Consumer:
    settings = {
        "bootstrap.servers": address,
        "group.id": "g",
        "enable.auto.commit": False,
        "topic.metadata.refresh.interval.ms": 100,
        **more,
    }
    return Consumer(settings)


def test_partitions_that_are_added_reach_a_subscribed_consumer(run):
    async def main():
        async with serving(made(), topics={"orders": 2}) as rig:
            consumer = confluent(bootstrap(rig))
            consumer.subscribe(["orders"])

            def owns(count: int) -> None:
                poll_until([consumer], lambda: len(consumer.assignment()) == count)

            await blocking(lambda: owns(2))
            rig.catalogue.add_partitions("orders", 5)
            await blocking(lambda: owns(5))
            await blocking(consumer.close)

    run(main())


def test_a_topic_that_is_added_reaches_a_pattern(run):
    async def main():
        async with serving(made(), topics={"orders-eu": 2}) as rig:
            consumer = confluent(bootstrap(rig))
            consumer.subscribe(["^orders-.*"])

            def owns(count: int) -> None:
                poll_until([consumer], lambda: len(consumer.assignment()) == count)

            await blocking(lambda: owns(2))
            rig.catalogue.create("orders-us", 1)
            rig.catalogue.create("payments", 7)
            await blocking(lambda: owns(3))
            await blocking(consumer.close)

    run(main())


def confluent_resumes(address: str) -> list[int]:
    consumer = confluent(address, **{"auto.offset.reset": "error"})
    consumer.commit(offsets=[TopicPartition("orders", 0, 42)], asynchronous=False)
    consumer.subscribe(["orders"])
    poll_until([consumer], consumer.assignment)
    for _ in range(10):
        message = consumer.poll(0.1)
        assert message is None, message.error()
    offsets = [p.offset for p in consumer.committed([TopicPartition("orders", 0)], timeout=SECONDS)]
    consumer.commit(offsets=[TopicPartition("orders", 0, 43)], asynchronous=False)
    consumer.close()
    return offsets


def kafka_python_resumes(address: str) -> list[int]:
    from kafka import OffsetAndMetadata
    from kafka import TopicPartition as PythonTopicPartition

    partition = PythonTopicPartition("orders", 0)
    consumer = KafkaConsumer(
        bootstrap_servers=address, group_id="g", enable_auto_commit=False, auto_offset_reset="none"
    )
    try:
        setter = KafkaConsumer(bootstrap_servers=address, group_id="g")
        setter.assign([partition])
        setter.commit({partition: OffsetAndMetadata(42, "", -1)})
        setter.close()
        # Otherwise it may assign before it knows the topic.
        eventually(lambda: consumer.partitions_for_topic("orders"))
        consumer.subscribe(["orders"])
        # Shorter polls lose an assignment (pitfall 21).
        eventually(lambda: consumer.poll(500) or consumer.assignment())
        for _ in range(5):
            assert consumer.poll(200) == {}
        return [consumer.position(partition), consumer.committed(partition)]
    finally:
        consumer.close()


@pytest.mark.parametrize(
    ("resumes", "expected"), [(confluent_resumes, [42]), (kafka_python_resumes, [42, 42])]
)
def test_a_consumer_resumes_at_its_commit_on_a_topic_without_records(run, resumes, expected):
    """Fetch never says OFFSET_OUT_OF_RANGE: `auto.offset.reset` is not asked."""

    async def main():
        async with serving(made(), topics={"orders": 1}) as rig:
            assert await blocking(lambda: resumes(bootstrap(rig))) == expected

    run(main())


def test_aiokafka_resumes_at_its_commit(run):
    async def main():
        async with serving(made(), topics={"orders": 1}) as rig:
            partition = AioTopicPartition("orders", 0)
            for expected in (None, 42):
                consumer = AIOKafkaConsumer(
                    "orders",
                    bootstrap_servers=bootstrap(rig),
                    group_id="g",
                    enable_auto_commit=False,
                    auto_offset_reset="earliest",
                )
                await consumer.start()
                assert await consumer.committed(partition) == expected
                assert await consumer.position(partition) == (expected or 0)
                assert await consumer.getmany(timeout_ms=300) == {}
                await consumer.commit({partition: 42})
                await consumer.stop()

    run(main())


@pytest.mark.parametrize(("reset", "expected"), [("earliest", 0), ("latest", 7)])
def test_auto_offset_reset_is_honoured(run, reset, expected):
    async def main():
        async with serving(made(), topics={"orders": 1}) as rig:
            rig.catalogue.set_end_offsets({("orders", 0): 7})
            consumer = AIOKafkaConsumer(
                "orders",
                bootstrap_servers=bootstrap(rig),
                group_id="g",
                auto_offset_reset=reset,
            )
            await consumer.start()
            assert await consumer.position(AioTopicPartition("orders", 0)) == expected
            await consumer.stop()

    run(main())


def test_polling_is_not_spinning(run):
    """A consumer's Fetch waits for fetch.wait.max.ms: a few a second, whatever it polls."""

    async def main():
        async with serving(made(), topics={"orders": 3}) as rig:
            consumer = confluent(bootstrap(rig), **{"auto.offset.reset": "earliest"})
            consumer.subscribe(["orders"])
            await blocking(lambda: poll_until([consumer], lambda: len(consumer.assignment()) == 3))
            hub = rig.server.hub
            before = hub.counts.requests().get(1, (0,))[0]
            started = asyncio.get_running_loop().time()
            await blocking(lambda: [consumer.poll(0.05) for _ in range(40)])
            seconds = asyncio.get_running_loop().time() - started
            fetches = hub.counts.requests().get(1, (0,))[0] - before
            assert 1 <= fetches <= 2 + 3 * seconds
            await blocking(consumer.close)

    run(main())
