"""What Prometheus scrapes of a node of a Kafka cluster, beside what every server tells. Names are
promises (docs/kafka.md).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from pykcoord.node.member import KafkaNode

__all__ = ["watch_node"]

_SAMPLE_SECONDS = 30.0


def watch_node(registry: CollectorRegistry, node: KafkaNode) -> None:
    """Samples the node at each scrape; to be called on its loop."""
    registry.register(_Collector(node, asyncio.get_running_loop()))


class _Collector(Collector):
    def __init__(self, node: KafkaNode, loop: asyncio.AbstractEventLoop) -> None:
        self._node = node
        self._loop = loop

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterable[Metric]:
        async def sample() -> list[Metric]:
            return list(_sample(self._node))

        return asyncio.run_coroutine_threadsafe(sample(), self._loop).result(_SAMPLE_SECONDS)


def _sample(node: KafkaNode) -> Iterable[Metric]:
    led = [one.partition for one in node.log.led.values()]
    for name, text, value in (
        ("led", "Partitions of __consumer_offsets that this node leads.", len(led)),
        ("serving", "Those whose groups it serves.", len(node.leadership.serving)),
        ("replicas", "Partitions of which it has a replica.", len(node.directory.logs)),
        (
            "under_min_isr",
            "Partitions that it leads with too few replicas in sync to acknowledge anything.",
            sum(one.is_under_min_isr for one in led),
        ),
        (
            "waiting_records",
            "Records that were written here and are not yet at all replicas in sync.",
            sum(one.end - one.high_watermark for one in led),
        ),
        (
            "refused_replicas",
            "Partitions of other topics that are assigned to this node, which does not serve them.",
            node.refused_replicas,
        ),
        ("metadata_offset", "Where the metadata log is read up to.", node.quorum.image.offset),
        ("registered", "1: a controller heard of this node lately.", node.is_registered),
    ):
        yield GaugeMetricFamily(f"pykcoord_kafka_node_{name}", text, value=value)
    for name, text, count in (
        ("forwarded", "Requests that were sent on to a broker.", node.forwarding.forwarded),
        ("followed_bytes", "Bytes of batches read from leaders.", node.following.counts["bytes"]),
        ("replicated_bytes", "Bytes of batches that others read.",
         node.followers.sent_bytes + node.replicas.fetched_bytes),
        ("truncations", "Times that a leader's log was another one.",
         node.following.counts["truncations"]),
    ):  # fmt: skip
        yield CounterMetricFamily(f"pykcoord_kafka_node_{name}", text, value=count)
