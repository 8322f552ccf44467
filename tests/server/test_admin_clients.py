"""Admin clients of three libraries against the node-level APIs, over TCP."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewPartitions as AioNewPartitions
from aiokafka.admin import NewTopic as AioNewTopic
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from confluent_kafka.admin import ConfigResource as ConfluentConfigResource
from kafka import KafkaAdminClient
from kafka.admin import NewTopic as PythonNewTopic

from .conftest import Rig, serving

pytestmark = pytest.mark.client
SECONDS = 60


async def blocking(work: Callable[[], Any]) -> Any:
    """Runs a client that blocks in a thread: the server shares the test's loop."""
    return await asyncio.get_running_loop().run_in_executor(None, work)


def bootstrap(rig: Rig) -> str:
    host, port = rig.server.address
    return f"{host}:{port}"


def partitions_of(rig: Rig) -> dict[str, int]:
    return {topic.name: topic.partitions for topic in rig.catalogue.topics().values()}


def test_confluent_kafka(run):
    def work(address: str) -> dict[str, int]:
        admin = AdminClient({"bootstrap.servers": address})
        for future in admin.create_topics(
            [NewTopic("made", 3, 1), NewTopic("gone", 1, 1)]
        ).values():
            future.result(SECONDS)
        for future in admin.create_partitions([NewPartitions("made", 5)]).values():
            future.result(SECONDS)
        for future in admin.delete_topics(["gone"]).values():
            future.result(SECONDS)
        resource = ConfluentConfigResource(ConfluentConfigResource.Type.BROKER, "1")
        for future in admin.describe_configs([resource]).values():
            assert future.result(SECONDS)["group.max.size"].value == "250"
        cluster = admin.describe_cluster().result(SECONDS)
        assert cluster.cluster_id == "test-cluster"
        metadata = admin.list_topics(timeout=SECONDS)
        return {name: len(topic.partitions) for name, topic in metadata.topics.items()}

    async def main():
        options = {"broker_configs": {"group.max.size": "250"}}
        async with serving(server_options=options) as rig:
            listed = await blocking(lambda: work(bootstrap(rig)))
            assert listed == partitions_of(rig) == {"orders": 12, "made": 5}

    run(main())


def test_kafka_python(run):
    def work(address: str) -> dict[str, int]:
        admin = KafkaAdminClient(bootstrap_servers=address)
        try:
            admin.create_topics([PythonNewTopic("made", 3, 1), PythonNewTopic("gone", 1, 1)])
            admin.create_partitions({"made": 5})
            admin.delete_topics(["gone"])
            assert admin.describe_cluster()["cluster_id"] == "test-cluster"
            described = admin.describe_topics(["made", "orders"])
            return {topic["name"]: len(topic["partitions"]) for topic in described}
        finally:
            admin.close()

    async def main():
        async with serving() as rig:
            listed = await blocking(lambda: work(bootstrap(rig)))
            assert listed == partitions_of(rig) == {"orders": 12, "made": 5}

    run(main())


def test_aiokafka(run):
    async def main():
        async with serving() as rig:
            admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap(rig))
            await admin.start()
            try:
                await admin.create_topics([AioNewTopic("made", 3, 1), AioNewTopic("gone", 1, 1)])
                await admin.create_partitions({"made": AioNewPartitions(5)})
                await admin.delete_topics(["gone"])
                assert sorted(await admin.list_topics()) == ["made", "orders"]
                described = await admin.describe_topics(["made"])
                assert len(described[0]["partitions"]) == 5
                assert (await admin.describe_cluster())["cluster_id"] == "test-cluster"
            finally:
                await admin.close()
            assert partitions_of(rig) == {"orders": 12, "made": 5}

    run(main())


def test_a_producer_fails_clearly_and_at_once(run):
    """librdkafka: the error of the delivery report, and not a time-out after 5 minutes."""
    from confluent_kafka import Producer

    def work(address: str) -> list[str]:
        errors: list[str] = []
        producer = Producer({"bootstrap.servers": address})
        producer.produce("orders", b"x", on_delivery=lambda error, _: errors.append(error.name()))
        assert producer.flush(SECONDS) == 0
        return errors

    async def main():
        async with serving() as rig:
            assert await blocking(lambda: work(bootstrap(rig))) == ["POLICY_VIOLATION"]

    run(main())


def test_a_consumer_without_a_group_polls_quietly(run):
    """confluent-kafka assigned by hand at offset 42: no error, no reset, no busy loop."""
    from confluent_kafka import Consumer, TopicPartition

    def work(rig: Rig) -> tuple[list[Any], int, float]:
        """Errors, how often it fetched, and in how many seconds."""
        errors: list[Any] = []

        def fetches() -> int:
            return int(rig.server.hub.counts.requests().get(1, (0,))[0])

        began = time.monotonic()
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap(rig),
                "group.id": "unused",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 100,
                "error_cb": errors.append,
            }
        )
        consumer.assign([TopicPartition("orders", 0, 42)])
        polls = 0
        while polls < 10 or (fetches() < 3 and time.monotonic() < began + SECONDS):
            polls += 1
            message = consumer.poll(0.1)
            if message is not None:
                errors.append(message.error())
        found, seconds = fetches(), time.monotonic() - began
        assert consumer.get_watermark_offsets(TopicPartition("orders", 0), SECONDS) == (0, 0)
        consumer.close()
        return errors, found, seconds

    async def main():
        async with serving() as rig:
            errors, fetches, seconds = await blocking(lambda: work(rig))
            assert errors == []
            assert 3 <= fetches <= 5 + 10 * seconds

    run(main())
