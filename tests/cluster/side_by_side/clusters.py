"""The two clusters, as faults see them: nodes 1, 2 and 3, each a process."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient
from support.asked import FIND_COORDINATOR, METADATA, Asked
from support.kafka.broker import KafkaBroker
from support.kafka.three import three_brokers
from support.ports import free_port
from support.proxied import ProxiedMembers
from support.proxy import Proxy

from pykcoord.cluster.looking import read_cluster

__all__ = ["Cluster", "kafka", "this_cluster"]

NODES = (1, 2, 3)
_WAIT_S = 120.0
_OFFSETS = "__consumer_offsets"
_METADATA_LOG = "__cluster_metadata"
DESCRIBE_QUORUM = 55


class Cluster(Protocol):
    """What faults are done to."""

    name: str

    def addresses(self) -> list[str]:
        """Of all nodes, whether they run or not."""

    def controller(self) -> int:
        """The node that leads the others."""

    def send(self, node: int, number: signal.Signals) -> None:
        """A signal to its process."""

    def kill(self, node: int) -> None:
        """SIGKILL; it is gone afterwards."""

    def end(self, node: int) -> None:
        """SIGTERM, and wait until it has ended."""

    def start(self, node: int) -> None:
        """Start one that has ended; it serves afterwards."""

    def cut(self, node: int) -> None:
        """What the other nodes say to this one is lost; what it says to them is not."""

    def join(self, node: int) -> None:
        """The end of `cut`."""

    def settle(self) -> None:
        """Wait until all nodes are there, and each leads what it is to lead."""


def coordinator(cluster: Cluster, group: str) -> int:
    """The node that coordinates a group; -1 where nobody says so."""
    for address in cluster.addresses():
        try:
            with Asked(address) as asked:
                found = asked.ask(FIND_COORDINATOR, 2, key=group, key_type=0)
        except OSError:
            continue
        if not found.error_code:
            return int(found.node_id)
    return -1


def _wait(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _WAIT_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not in {_WAIT_S:.0f} s: {what}")
        time.sleep(0.2)


class _Ours:
    name = "this cluster"

    def __init__(self, members: ProxiedMembers) -> None:
        self._members = members

    def addresses(self) -> list[str]:
        return [f"127.0.0.1:{port}" for port in self._members.ports.values()]

    def controller(self) -> int:
        nodes = read_cluster(str(self._members.folder)).nodes
        return next(one.node_id for one in nodes if one.is_controller)

    def send(self, node: int, number: signal.Signals) -> None:
        self._members.processes[node].send_signal(number)

    def kill(self, node: int) -> None:
        self._members.kill(node)

    def end(self, node: int) -> None:
        self._members.end(node)

    def start(self, node: int) -> None:
        self._members.start(node)

    def cut(self, node: int) -> None:
        self._members.controls[node].cut()

    def join(self, node: int) -> None:
        self._members.controls[node].join()

    def settle(self) -> None:
        for node in NODES:
            if node not in self._members.processes:
                self.start(node)

        def is_spread() -> bool:
            led = [len(node.shards) for node in read_cluster(str(self._members.folder)).nodes]
            return len(led) == len(NODES) and max(led) - min(led) <= 1

        _wait(is_spread, "all shards are spread")


@contextmanager
def this_cluster(directory: Path) -> Iterator[Cluster]:
    """Three nodes over one folder."""
    directory.mkdir(parents=True)
    members = ProxiedMembers(directory, len(NODES), {"offsets.topic.num.partitions": 10})
    try:
        members.start_all()
        yield _Ours(members)
    finally:
        members.close()


class _Kafka:
    name = "Kafka"

    def __init__(self, brokers: list[KafkaBroker], links: dict[int, list[Proxy]]) -> None:
        self._brokers = dict(zip(NODES, brokers, strict=True))
        self._links = links

    def addresses(self) -> list[str]:
        return [broker.address for broker in self._brokers.values()]

    def controller(self) -> int:
        partitions = [{"partition_index": 0}]
        topics = [{"topic_name": _METADATA_LOG, "partitions": partitions}]
        for broker in self._brokers.values():
            if broker.is_running:
                with Asked(broker.address) as asked:
                    told = asked.ask(DESCRIBE_QUORUM, 0, topics=topics)
                return int(told.topics[0].partitions[0].leader_id)
        return -1

    def send(self, node: int, number: signal.Signals) -> None:
        os.kill(self._brokers[node].pid, number)

    def kill(self, node: int) -> None:
        self._brokers[node].kill()

    def end(self, node: int) -> None:
        self._brokers[node].stop()

    def start(self, node: int) -> None:
        self._brokers[node].start()

    def cut(self, node: int) -> None:
        for link in self._links[node]:
            link.cut()

    def join(self, node: int) -> None:
        for link in self._links[node]:
            link.join()

    def settle(self) -> None:
        for node, broker in self._brokers.items():
            if not broker.is_running:
                self.start(node)
        _wait(lambda: all(len(one.isr_nodes) == len(NODES) for one in self._offsets()), "in sync")
        admin = AdminClient({"bootstrap.servers": ",".join(self.addresses()), "log_level": 0})
        rows = [TopicPartition(_OFFSETS, one.partition_index) for one in self._offsets()]
        admin.elect_leaders(ElectionType.PREFERRED, rows).result(_WAIT_S)
        _wait(
            lambda: all(one.leader_id == one.replica_nodes[0] for one in self._offsets()),
            "each broker leads what it is to lead",
        )

    def _offsets(self) -> list[Any]:
        """The partitions, as a broker tells of them; made by the first who asks for a group."""
        coordinator(self, "any")
        topics = [{"name": _OFFSETS}]
        with Asked(self.addresses()[0]) as asked:
            told = asked.ask(METADATA, 4, topics=topics, allow_auto_topic_creation=False)
        return list(told.topics[0].partitions)


@contextmanager
def kafka(directory: Path) -> Iterator[Cluster]:
    """Three brokers, each a controller too; sessions of 3 s (the default of 9 s makes gaps longer).
    What they say to each other goes by links that can be cut."""
    inner = {node: free_port() for node in NODES}
    links = {node: [Proxy(("127.0.0.1", inner[node]))] for node in NODES}

    def prepare(brokers: list[KafkaBroker]) -> None:
        for node, broker in zip(NODES, brokers, strict=True):
            _, _, controller = broker.settings["listeners"].rpartition(":")
            links[node].append(Proxy(("127.0.0.1", int(controller))))
        voters = ",".join(f"{node}@127.0.0.1:{link.port}" for node, (_, link) in links.items())
        for node, broker in zip(NODES, brokers, strict=True):
            listeners, inner_link = broker.settings["listeners"], links[node][0].port
            broker.settings |= {
                "controller.quorum.voters": voters,
                "listeners": f"{listeners},INNER://127.0.0.1:{inner[node]}",
                "advertised.listeners": f"PLAINTEXT://{broker.address},"
                f"INNER://127.0.0.1:{inner_link}",
                "inter.broker.listener.name": "INNER",
                "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,"
                "INNER:PLAINTEXT",
            }

    settings = {"broker_session_timeout_ms": "3000", "broker_heartbeat_interval_ms": "500"}
    try:
        with three_brokers(directory, prepare, **settings) as brokers:
            yield _Kafka(brokers, links)
    finally:
        for proxies in links.values():
            for proxy in proxies:
                proxy.close()
