"""What Prometheus scrapes. Names are promises (docs/operating).

Counters of connections and requests live in the hub, as plain C numbers; they are turned into
samples only when they are scraped.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Protocol

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from pykcoord.lag import Lags
from pykcoord.lag_metrics import lag_metrics
from pykcoord.node_metrics import metrics_of
from pykcoord.runtime import Runtime
from pykcoord.server._connection import Hub
from pykcoord.server._counting import LATENCY_BOUNDS
from pykcoord.server.api.registry import NAMES

_SECONDS = (0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
_SAMPLE_SECONDS = 5.0


class LogLines(Protocol):
    """Where the lines of the process's log go (`pykcoord.cli.log_queue.LineQueue`)."""

    @property
    def left_out_lines(self) -> int: ...
    @property
    def dropped_lines(self) -> int: ...


class ServerMetrics:
    """One server's metrics in one registry; also the runtime's `RuntimeMetrics`.

    `log_observer` is for the log.
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry if registry is not None else CollectorRegistry()
        self._turn_seconds = Histogram(
            "pykcoord_turn_seconds",
            "One step of the node.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._frames = Counter(
            "pykcoord_turn_frames", "Frames that were handed to the node.", registry=self.registry
        )
        self._append_seconds = Histogram(
            "pykcoord_append_seconds",
            "From a record's emission until it is durable.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._append_failures = Counter(
            "pykcoord_append_failures",
            "Appends that failed, each ending its shard.",
            registry=self.registry,
        )
        self.log_observer = LogMetrics(self.registry)

    def watch(self, hub: Hub, runtime: Runtime) -> None:
        """Sample these two at each scrape."""
        self.registry.register(_ServerCollector(hub, runtime))

    def watch_lag(self, lags: Callable[[], Coroutine[Any, Any, Lags]], most_series: int) -> None:
        """Tell at each scrape how far groups are behind; `lags` runs on this loop."""
        self.registry.register(LagCollector(lags, most_series, asyncio.get_running_loop()))

    def watch_lines(self, lines: LogLines) -> None:
        """Count the lines of log that were left out, at each scrape."""
        self.registry.register(_LinesCollector(lines))

    def watch_starts(self, starts: int) -> None:
        """Say how often the supervisor has started this node."""
        text = "Starts of this node since its supervisor began."
        counter = Counter("pykcoord_node_starts", text, registry=self.registry)
        counter.inc(starts)

    def turn(self, frames: int, seconds: float) -> None:
        """One step of the node with so many frames."""
        self._turn_seconds.observe(seconds)
        self._frames.inc(frames)

    def appended(self, seconds: float) -> None:
        """One append became durable after so long."""
        self._append_seconds.observe(seconds)

    def append_failed(self, shard: int) -> None:
        """One append failed."""
        self._append_failures.inc()


class LogMetrics:
    """What the log's writer thread reports: a `pykcoord.log.protocol.LogObserver`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._written_bytes = Counter(
            "pykcoord_log_written_bytes",
            "Bytes of batches written to the log.",
            registry=registry,
        )
        self._sync_seconds = Histogram(
            "pykcoord_fsync_seconds",
            "One round of fsync: all shards written meanwhile.",
            buckets=_SECONDS,
            registry=registry,
        )

    def appended(self, shard: int, batches: int, size_bytes: int) -> None:
        """So much was written to the log of `shard`."""
        self._written_bytes.inc(size_bytes)

    def synced(self, files: int, seconds: float) -> None:
        """So many files were synced together, in so many seconds."""
        self._sync_seconds.observe(seconds)


class _LinesCollector(Collector):
    def __init__(self, lines: LogLines) -> None:
        self._lines = lines

    def collect(self) -> Iterable[Metric]:
        family = CounterMetricFamily(
            "pykcoord_lines_left_out", "Lines that are not in the log.", labels=("reason",)
        )
        family.add_metric(("rate",), self._lines.left_out_lines)
        family.add_metric(("unread",), self._lines.dropped_lines)
        yield family


class LagCollector(Collector):
    """Samples `lags` on the loop, for a scrape on any other thread."""

    def __init__(
        self,
        lags: Callable[[], Coroutine[Any, Any, Lags]],
        most_series: int,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._lags = lags
        self._most_series = most_series
        self._loop = loop

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterable[Metric]:
        sampled = asyncio.run_coroutine_threadsafe(self._lags(), self._loop)
        return lag_metrics(sampled.result(_SAMPLE_SECONDS), self._most_series)


class _ServerCollector(Collector):
    """Samples on the loop's thread, to which the node belongs, for a scrape on any thread."""

    def __init__(self, hub: Hub, runtime: Runtime) -> None:
        self._hub = hub
        self._runtime = runtime
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    def collect(self) -> Iterable[Metric]:
        if threading.get_ident() == self._thread:
            return self._sample()
        sampled = asyncio.run_coroutine_threadsafe(self._sample_there(), self._loop)
        return sampled.result(_SAMPLE_SECONDS)

    async def _sample_there(self) -> list[Metric]:
        return self._sample()

    def _sample(self) -> list[Metric]:
        metrics = [*_connections(self._hub), _requests(self._hub)]
        stats = dict(_stats_of(self._runtime.node))
        if self._runtime.recorder is not None:
            stats["events_not_kept_total"] = self._runtime.recorder.not_kept
        metrics += metrics_of(stats)
        text = "Shards that failed and are not loaded again yet."
        metrics.append(_gauge("pykcoord_shards_away", text, self._runtime.shards_away))
        text = "Shards that this process serves."
        metrics.append(_gauge("pykcoord_shards_led", text, self._runtime.shards_led))
        size_bytes = getattr(self._runtime.log, "size_bytes", None)
        if size_bytes is not None:
            metrics.append(_gauge("pykcoord_log_bytes", "Size of the log's segments.", size_bytes))
        return metrics


def _connections(hub: Hub) -> Iterable[Metric]:
    yield _gauge("pykcoord_connections", "Open connections.", len(hub.connections))
    yield _gauge("pykcoord_requests_in_flight", "Requests not yet answered.", len(hub.in_flight))
    for name, text, value in (
        ("connections_accepted", "Connections that were accepted.", hub.accepted_total),
        ("refused", "Connections and frames that were refused.", hub.refused_total),
        ("received_bytes", "Bytes received from clients.", hub.received_bytes_total),
        ("sent_bytes", "Bytes sent to clients.", hub.sent_bytes_total),
    ):
        yield CounterMetricFamily(f"pykcoord_{name}", text, value=value)


def _requests(hub: Hub) -> Metric:
    """From a request's arrival to its reply: parked ones include the time they were parked."""
    family = HistogramMetricFamily(
        "pykcoord_request_seconds", "From a request's arrival to its reply.", labels=("api",)
    )
    for key, (_, seconds, buckets) in hub.counts.requests().items():
        below = 0
        samples = []
        for bound, count in zip((*map(str, LATENCY_BOUNDS), "+Inf"), buckets, strict=True):
            below += count
            samples.append((bound, below))
        family.add_metric((NAMES.get(key, "other"),), samples, seconds)
    return family


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def _stats_of(node: Any) -> Mapping[str, Any]:
    stats = getattr(node, "stats", None)
    return stats() if stats is not None else {}
