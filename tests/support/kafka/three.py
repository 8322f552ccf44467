"""Three brokers of Kafka that are one cluster, each a controller too."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.kafka import jars
from support.kafka.broker import KafkaBroker, new_cluster_id
from support.ports import free_port


def skip_unless_asked(config: pytest.Config) -> None:
    """A long test with real brokers, that --kafka-all asks for; and where Kafka cannot run."""
    if not config.getoption("--kafka-all"):
        pytest.skip("long: `make test-kafka`, or --kafka-all")
    if (reason := jars.missing_tool_chain()) is not None:
        pytest.skip(reason)


@contextmanager
def three_brokers(
    directory: Path, prepare: Callable[[list[KafkaBroker]], None] | None = None, **more: str
) -> Iterator[list[KafkaBroker]]:
    """Started together, killed at the end. `more`: settings, with `_` for `.`; `prepare` may change
    those of each before it starts. Node ids 1 to 3."""
    brokers = [KafkaBroker(directory / str(one), heap="400m") for one in (1, 2, 3)]
    cluster_id = new_cluster_id()
    controllers = [free_port() for _ in brokers]
    voters = ",".join(f"{at}@127.0.0.1:{port}" for at, port in enumerate(controllers, 1))
    for at, broker in enumerate(brokers, 1):
        broker.cluster_id = cluster_id
        broker.settings |= {
            "node.id": str(at),
            "controller.quorum.voters": voters,
            "listeners": f"PLAINTEXT://{broker.address},"
            f"CONTROLLER://127.0.0.1:{controllers[at - 1]}",
            "offsets.topic.replication.factor": "3",
            "offsets.topic.num.partitions": "10",
            "transaction.state.log.replication.factor": "3",
            "transaction.state.log.min.isr": "2",
            "min.insync.replicas": "2",
            **{name.replace("_", "."): value for name, value in more.items()},
        }
    if prepare is not None:
        prepare(brokers)
    starting = [threading.Thread(target=broker.start) for broker in brokers]
    try:
        for thread in starting:
            thread.start()
        for thread in starting:
            thread.join()
        assert all(broker.is_running for broker in brokers)
        yield brokers
    finally:
        for broker in brokers:  # not in order: the last would wait for a quorum
            if broker.is_running:
                broker.kill()
