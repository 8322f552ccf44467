"""Live hosting through every failure, on two executors of this machine: a program of its own.

    python -m support.hosting_faults LOG

starts 32 shards on 3 hosts, a real consumer of each kind and a probe for each shard; kills a worker
and an executor, stops a host for 5 s; prints the gaps as JSON and ends with 1 if a commit that was
acknowledged is lost.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import aiokafka
import confluent_kafka
import kafka
from aiokafka.errors import KafkaError as AioKafkaError
from kafka.errors import KafkaError
from pykcoord_spark.hosting.cluster import Cluster
from pyspark.sql import SparkSession

from pykcoord._native import partition_of
from support.hosting import CONFIG, wait_until
from support.probe import Probe

SHARDS, HOSTS = 32, 3


def main(log: Path) -> int:
    session = (
        SparkSession.builder.master("local-cluster[2,2,1024]")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.log.level", "OFF")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    try:
        report = _report(session, log)
    finally:
        session.stop()
    print(json.dumps(report))  # noqa: T201
    return 1 if report["lost"] else 0


def _report(session: SparkSession, log: Path) -> dict[str, object]:
    groups = {partition_of(f"g{n}", SHARDS): f"g{n}" for n in range(400)}
    with Cluster(session, SHARDS, HOSTS, log, topics={"orders": 3}, config=CONFIG) as cluster:
        wait_until(lambda: _is_balanced(cluster), 60)

        def bootstrap() -> list[tuple[str, int]]:
            return [(host.host, host.port) for host in cluster.hosts()]

        probes = {shard: Probe(group, bootstrap) for shard, group in sorted(groups.items())}
        clients = Clients(cluster.bootstrap)
        try:
            for probe in probes.values():
                probe.start()
            clients.start()
            gaps = {
                name: _fault(name, cluster, probes, clients, fault)
                for name, fault in (
                    ("kill -9 of a worker", _kill_worker),
                    ("kill -9 of an executor", _kill_executor),
                    ("SIGSTOP of a host for 5 s", _stop_host),
                )
            }
        finally:
            clients.stop()
            for probe in probes.values():
                probe.stop()
    lost = [*clients.lost, *(text for probe in probes.values() for text in probe.lost)]
    latencies = sorted(each for probe in probes.values() for each in probe.latencies)
    return {
        "gaps": gaps,
        "lost": lost,
        "commits": len(latencies),
        "p50_ms": 1000 * latencies[len(latencies) // 2],
        "p99_ms": 1000 * latencies[len(latencies) * 99 // 100],
        "load": os.getloadavg(),
    }


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
            consumer.poll(20)
            try:
                consumer.commit({at: kafka.OffsetAndMetadata(offset, "", -1)})
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


def _fault(
    name: str,
    cluster: Cluster,
    probes: dict[int, Probe],
    clients: Clients,
    fault: Callable[[int], set[int]],
) -> dict[str, float]:
    """Longest gaps of the affected groups and of the others, in seconds."""
    pids = {host.pid: host.node_id for host in cluster.hosts()}
    led = cluster.led()
    victim = next(iter(pids))
    at = time.monotonic()
    dead = {pids[pid] for pid in fault(victim) if pid in pids}
    wait_until(lambda: all(probe.times[-1] > at + 3 for probe in probes.values()))
    gaps = {shard: probe.longest_gap(at) for shard, probe in probes.items()}
    affected = max(gap for shard, gap in gaps.items() if led[shard] in dead)
    others = max((gap for shard, gap in gaps.items() if led[shard] not in dead), default=0.0)
    clients.go_on()
    wait_until(lambda: len(cluster.hosts()) == HOSTS and _is_balanced(cluster), 60)
    gap = {"affected": round(affected, 3), "others": round(others, 3)}
    print(f"{name}: {gap}", file=sys.stderr)  # noqa: T201
    return gap


def _kill_worker(pid: int) -> set[int]:
    os.kill(pid, signal.SIGKILL)
    return {pid}


def _kill_executor(pid: int) -> set[int]:
    """The JVM of the executor: its Python daemon and workers go with it."""
    daemon = _parent(pid)
    executor = _parent(daemon)
    siblings = set(_children(daemon))
    os.kill(executor, signal.SIGKILL)
    return siblings


def _stop_host(pid: int) -> set[int]:
    os.kill(pid, signal.SIGSTOP)
    threading.Timer(5, os.kill, (pid, signal.SIGCONT)).start()
    return {pid}


def _is_balanced(cluster: Cluster) -> bool:
    led = list(cluster.led().values())
    counts = [led.count(host.node_id) for host in cluster.hosts()]
    return len(led) == SHARDS and max(counts) - min(counts) <= 1


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
