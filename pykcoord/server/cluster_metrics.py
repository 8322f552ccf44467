"""What a node of a cluster over a shared store has for Prometheus, beside what each server has.
Names are promises (docs/cluster).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from pykcoord.server.metrics import LogLines, ServerMetrics

__all__ = ["ClusterMetrics", "NodeFigures", "StoreCalls"]

_SECONDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class StoreCalls(Protocol):
    """What a store was asked (`pykcoord.cluster.watched_store.WatchedStore`)."""

    @property
    def asked(self) -> Mapping[str, int]: ...
    @property
    def failures(self) -> Mapping[str, int]: ...


@dataclass
class NodeFigures:
    """What a node says of itself: kept up to date on its loop, read by scrapes."""

    lease_left_seconds: float = 0.0
    is_controller: bool = False
    nodes: int = 0
    term: int = 0
    rounds: int = 0


class ClusterMetrics:
    """The metrics of a node, over all its incarnations; each of them has a server with metrics of
    its own, `server`."""

    def __init__(self, calls: StoreCalls, lines: LogLines) -> None:
        self.figures = NodeFigures()
        self._lines = lines
        self.server = ServerMetrics()
        registry = CollectorRegistry()
        self._taken = Counter(
            "pykcoord_takeovers",
            "Shards that this node began to serve: new ones, after another node was fenced, and "
            "from one that let go of them.",
            labelnames=("cause",),
            registry=registry,
        )
        self._seconds = Histogram(
            "pykcoord_takeover_seconds",
            "From the order to lead a shard until it is served.",
            buckets=_SECONDS,
            registry=registry,
        )
        self._fenced = Counter(
            "pykcoord_fenced", "How often other nodes have fenced this one.", registry=registry
        )
        registry.register(_Figures(self, calls))
        self._own = registry
        self.registry = CollectorRegistry()
        self.registry.register(_Both(self))

    def begin_server(self) -> ServerMetrics:
        """Metrics of the server of another incarnation."""
        self.server = ServerMetrics()
        self.server.watch_lines(self._lines)
        return self.server

    def taken(self, cause: str, seconds: float) -> None:
        """A shard is served, so long after the order."""
        self._taken.labels(cause).inc()
        self._seconds.observe(seconds)

    def fenced(self) -> None:
        """Another node has fenced this one."""
        self._fenced.inc()

    def collect(self) -> Iterable[Metric]:
        """Of the node, and of its server of now."""
        yield from self._own.collect()
        yield from self.server.registry.collect()


class _Both(Collector):
    def __init__(self, metrics: ClusterMetrics) -> None:
        self._metrics = metrics

    def describe(self) -> Iterable[Metric]:
        return []  # it would be sampled before there is a loop

    def collect(self) -> Iterable[Metric]:
        return self._metrics.collect()


class _Figures(Collector):
    def __init__(self, metrics: ClusterMetrics, calls: StoreCalls) -> None:
        self._metrics = metrics
        self._calls = calls

    def collect(self) -> Iterable[Metric]:
        now = self._metrics.figures
        for name, text, value in (
            ("controller", "Whether this node is the controller.", float(now.is_controller)),
            ("cluster_nodes", "Nodes that are not gone, as this one knows.", float(now.nodes)),
            ("cluster_term", "How many controllers there were.", float(now.term)),
            (
                "lease_left_seconds",
                "How long this node may still answer reads; below 0 it does not.",
                now.lease_left_seconds,
            ),
        ):
            yield GaugeMetricFamily(f"pykcoord_{name}", text, value=value)
        yield CounterMetricFamily(
            "pykcoord_rounds", "Rounds that this node has put.", value=now.rounds
        )
        for name, text, counts in (
            ("store_calls", "What was asked of the store.", self._calls.asked),
            ("store_failures", "What the store did not do.", self._calls.failures),
        ):
            family = CounterMetricFamily(f"pykcoord_{name}", text, labels=("call",))
            for call in ("create", "read", "names", "delete"):
                family.add_metric((call,), counts.get(call, 0))
            yield family
