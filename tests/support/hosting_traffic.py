"""Clients of a hosted cluster in a process of their own, so that they wait for the cluster and not
for the interpreter of the driver.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

import aiokafka
import confluent_kafka
import kafka
from aiokafka.errors import KafkaError as AioKafkaError
from kafka.errors import KafkaError
from pykcoord_spark.hosting.registry import Registry

from pykcoord.log.shared import open_store
from support.hosting import wait_until
from support.probe import Probe

_PAUSE_SECONDS = 0.1
"""Of a probe. More often, and probes wait for one another: the gaps would be this process's own."""


@contextmanager
def traffic(log: str, groups: Mapping[int, str], bootstrap: str) -> Iterator[Callable[..., Any]]:
    """Clients until the block ends: a probe for each group (by shard), and a consumer of each kind.
    What is yielded calls a method of `_Traffic` there."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(there, log, dict(groups), bootstrap))
    process.start()

    def call(name: str, *arguments: Any) -> Any:
        here.send((name, arguments))
        assert here.poll(120), f"the clients do not answer {name}"
        return here.recv()

    try:
        call("start")
        yield call
    finally:
        here.close()
        process.join(60)
        process.kill()


def _serve(asked: Connection, log: str, groups: Mapping[int, str], bootstrap: str) -> None:
    clients = _Traffic(log, groups, bootstrap)
    while True:
        try:
            name, arguments = asked.recv()
        except EOFError:
            return
        asked.send(getattr(clients, name)(*arguments))


class _Traffic:
    def __init__(self, log: str, groups: Mapping[int, str], bootstrap: str) -> None:
        store = open_store(log)

        def addresses() -> list[tuple[str, int]]:
            hosts = Registry(store).hosts().values()
            return [(host.host, host.port) for host in hosts]

        self._probes = {
            shard: Probe(group, addresses, pause_seconds=_PAUSE_SECONDS)
            for shard, group in groups.items()
        }
        self._clients = Clients(bootstrap)

    def start(self) -> None:
        for probe in self._probes.values():
            probe.start()
        self._clients.start()
        wait_until(lambda: all(probe.acknowledged >= 0 for probe in self._probes.values()))

    def go_on(self, since: float) -> None:
        """Every probe was answered after `since` (monotonic), every client has a new commit."""
        wait_until(lambda: all(probe.times[-1] > since for probe in self._probes.values()), 60)
        self._clients.go_on()

    def gaps(self, since: float) -> dict[int, float]:
        """By shard: see `Probe.longest_gap`."""
        return {shard: probe.longest_gap(since) for shard, probe in self._probes.items()}

    def told(self, shard: int, since: float) -> str:
        """See `Probe.told`."""
        return self._probes[shard].told(since)

    def stop(self) -> tuple[list[str], list[float]]:
        """Lost commits, and the seconds that each commit took."""
        self._clients.stop()
        for probe in self._probes.values():
            probe.stop()
        lost = [*self._clients.lost, *(text for p in self._probes.values() for text in p.lost)]
        return lost, [seconds for p in self._probes.values() for seconds in p.latencies]


class Clients:
    """A real consumer of each kind, each in a group of its own, that commits again and again."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.acknowledged: dict[str, int] = {}
        self.lost: list[str] = []
        self._quitting = threading.Event()
        runs: list[Callable[[], None]] = [
            self._kafka_python,
            self._confluent,
            lambda: asyncio.run(self._aiokafka()),
        ]
        self._threads = [threading.Thread(target=run, daemon=True) for run in runs]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()
        wait_until(lambda: len(self.acknowledged) == len(self._threads), 60)

    def stop(self) -> None:
        self._quitting.set()
        for thread in self._threads:
            thread.join(60)

    def go_on(self) -> None:
        """Every client has a further commit acknowledged."""
        before = dict(self.acknowledged)
        wait_until(lambda: all(self.acknowledged[k] > before[k] + 1 for k in before), 60)

    def _done(self, name: str, offset: int) -> None:
        self.acknowledged[name] = offset

    def _found(self, name: str, offset: int) -> None:
        if offset < self.acknowledged.get(name, -1):
            self.lost.append(f"{name}: {self.acknowledged[name]} was acknowledged, not {offset}")

    def _kafka_python(self) -> None:
        consumer = kafka.KafkaConsumer(
            "orders", bootstrap_servers=self.bootstrap.split(","), group_id="kafka-python",
            enable_auto_commit=False, retry_backoff_ms=50, request_timeout_ms=11_000,
            session_timeout_ms=10_000,
        )  # fmt: skip
        at, offset = kafka.TopicPartition("orders", 0), 0
        while not self._quitting.is_set():
            consumer.poll(200)  # less than a join takes would be too little for one, every time
            try:
                # Only `poll` joins: a commit that is too early is repeated in vain, by default for
                # as long as a request may take.
                consumer.commit({at: kafka.OffsetAndMetadata(offset, "", -1)}, timeout_ms=500)
                self._done("kafka-python", offset)
                self._found("kafka-python", consumer.committed(at))
                offset += 1
            except KafkaError:
                pass
        consumer.close(autocommit=False)

    def _confluent(self) -> None:
        consumer = confluent_kafka.Consumer({
            "bootstrap.servers": self.bootstrap, "group.id": "confluent",
            "enable.auto.commit": False, "session.timeout.ms": 10_000,
            "socket.timeout.ms": 1_000, "log_level": 0,
        })  # fmt: skip
        consumer.subscribe(["orders"])
        offset = 0
        while not self._quitting.is_set():
            consumer.poll(0.02)
            try:
                at = confluent_kafka.TopicPartition("orders", 0, offset)
                consumer.commit(offsets=[at], asynchronous=False)
                self._done("confluent", offset)
                (found,) = consumer.committed([confluent_kafka.TopicPartition("orders", 0)], 5)
                self._found("confluent", found.offset)
                offset += 1
            except confluent_kafka.KafkaException:
                pass
        consumer.close()

    async def _aiokafka(self) -> None:
        consumer = aiokafka.AIOKafkaConsumer(
            "orders", bootstrap_servers=self.bootstrap, group_id="aiokafka",
            enable_auto_commit=False, retry_backoff_ms=50, request_timeout_ms=2_000,
            session_timeout_ms=10_000,
        )  # fmt: skip
        await consumer.start()
        at, offset = aiokafka.TopicPartition("orders", 0), 0
        while not self._quitting.is_set():
            await asyncio.sleep(0.02)
            try:
                async with asyncio.timeout(5):
                    await consumer.commit({at: offset})
                    self._done("aiokafka", offset)
                    self._found("aiokafka", await consumer.committed(at) or 0)
                offset += 1
            except (AioKafkaError, TimeoutError):
                pass
        await consumer.stop()
