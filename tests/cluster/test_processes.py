"""Hosts as processes on this machine: a real client over a move of its shard, and SIGKILL."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
from kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition
from support.hosting import Processes, processes, wait_until
from support.probe import Probe

from pykcoord._native import partition_of
from pykcoord.cluster.controller import Controller

pytestmark = [pytest.mark.client, pytest.mark.crash]

SHARDS = 4
GROUPS = {partition_of(f"g{n}", SHARDS): f"g{n}" for n in range(40)}  # one of each shard


def test_groups_are_served_over_moves_kills_and_a_takeover(tmp_path: Path) -> None:
    with processes(tmp_path, shards=SHARDS, hosts=1, topics={"orders": 2}) as cluster:
        addresses = [(h.host, h.port) for h in cluster.controller.hosts()]
        consumer = joined(cluster)
        probes = [Probe(group, lambda: list(addresses)) for group in GROUPS.values()]
        try:
            for probe in probes:
                probe.start()
            moved = moved_to_a_second_host(cluster)
            addresses += [(h.host, h.port) for h in cluster.controller.hosts()]
            committed(consumer, 1)
            killed(cluster, moved, probes)
            committed(consumer, 2)
            taken_over(cluster, addresses, probes)
        finally:
            for probe in probes:
                probe.stop()
            consumer.close(autocommit=False)
        wait_until(lambda: cluster.processes[0].poll() is not None)


def joined(cluster: Processes) -> KafkaConsumer:
    consumer = KafkaConsumer(
        "orders",
        bootstrap_servers=cluster.bootstrap,
        group_id="kafka-python",
        enable_auto_commit=False,
        retry_backoff_ms=20,
        reconnect_backoff_ms=20,
    )
    # Not until it has partitions: it may lead its group before it knows the topic, and then gives
    # itself none until it looks again. Shorter polls lose an assignment (pitfall 21 of clients).
    wait_until(lambda: consumer.poll(500) or consumer._coordinator.generation_if_stable())
    return consumer


def committed(consumer: KafkaConsumer, offset: int) -> None:
    """The consumer goes on in its group, wherever that is now."""
    partition = TopicPartition("orders", 0)
    consumer.commit({partition: OffsetAndMetadata(offset, "", -1)})
    assert consumer.committed(partition) == offset


def moved_to_a_second_host(cluster: Processes) -> set[int]:
    """The shards that went to a host that came later: half of them."""
    first = cluster.leader(0).node_id
    cluster.spawn()
    assert cluster.controller.wait_led(2, 60)
    led = wait_until(lambda: _balanced(cluster.controller))
    return {shard for shard, node_id in led.items() if node_id != first}


def _balanced(controller: Controller) -> dict[int, int]:
    led = controller.led()
    even = len(led) == SHARDS and len(set(led.values())) == 2
    return led if even and list(led.values()).count(led[0]) == SHARDS // 2 else {}


def killed(cluster: Processes, moved: set[int], probes: list[Probe]) -> None:
    """SIGKILL of the second host: its groups are served by the first, the others do not notice."""
    last = {probe.group_id: len(probe.times) for probe in probes}
    wait_until(lambda: all(len(p.times) > last[p.group_id] for p in probes))
    at = time.monotonic()
    cluster.processes[1].send_signal(signal.SIGKILL)
    wait_until(lambda: all(probe.times[-1] > at + 0.5 for probe in probes))
    assert [probe.lost for probe in probes] == [[]] * len(probes)
    gaps = {partition_of(p.group_id, SHARDS): p.longest_gap(at) for p in probes}
    assert len(moved) == SHARDS // 2
    assert max(gaps[shard] for shard in moved) < 10
    others = max(gap for shard, gap in gaps.items() if shard not in moved)
    assert others < max(gaps[shard] for shard in moved), gaps


def taken_over(cluster: Processes, addresses: list[tuple[str, int]], probes: list[Probe]) -> None:
    """A second application on the log: the first one's host says where to go, and ends."""
    second = Processes(cluster.log, SHARDS, {})
    try:
        second.start(1)
        wait_until(lambda: cluster.controller.superseded)
        assert set(second.controller.led()) == set(range(SHARDS))
        host = second.controller.hosts()[0]
        view = second.registry.read()
        assert {entry.node_id for entry in view.shards.values()} == {host.node_id}
        addresses.append((host.host, host.port))
        at = time.monotonic()
        wait_until(lambda: all(probe.times[-1] > at for probe in probes))
        assert [probe.lost for probe in probes] == [[]] * len(probes)
    finally:
        second.stop()
