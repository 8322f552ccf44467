"""The console of a coordinator in this process: its requests go to the coordinator's own loop."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from pykcoord.catalogue import Topic
from pykcoord.clock import Clock
from pykcoord.event_stream import EventStream
from pykcoord.lag import Behind, Place
from pykcoord.lag_metrics import lag_metrics
from pykcoord.lag_watch import LagWatch
from pykcoord.node_metrics import metrics_of
from pykcoord.recorded import Recorded
from pykcoord.recorder import Recorder
from pykcoord.web import lags
from pykcoord.web.exposition import exposed
from pykcoord.web.source import Ends, Figures, NodeAddress, Past

__all__ = ["EmbeddedSource"]

T = TypeVar("T")
_SAMPLE_SECONDS = 5.0
_HERE = NodeAddress(0, "", 0)


class Host(Protocol):
    """The thread of a coordinator (`pykcoord._serving.Serving`)."""

    closed: bool
    recorder: Recorder | None
    event_files: Recorded | None
    lag: LagWatch | None
    clock: Clock

    @property
    def parts(self) -> Any: ...
    def run(self, coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]: ...
    def events(self, limit: int) -> EventStream: ...


class EmbeddedSource:
    """A `Source`: one node, that is this process. `exchange` answers a frame on `host`'s loop."""

    tells_all = hears_all = True
    is_watched = False
    controller = None

    def __init__(self, name: str, host: Host, exchange: Any) -> None:
        self.name = name
        self._host = host
        self._exchange = exchange
        self._registry = CollectorRegistry()
        self._registry.register(_Stats(self))

    @property
    def shards(self) -> int:
        """How many shards there are."""
        found: int = self._host.parts.runtime.log.shards  # the node is the loop's alone
        return found

    def hears(self, group_id: str) -> bool:
        """Of all groups."""
        return True

    def nodes(self) -> Sequence[NodeAddress]:
        """This process."""
        return [_HERE]

    def node_of(self, shard: int) -> int | None:
        """This process."""
        return _HERE.node_id

    def coordinator(self, group_id: str) -> NodeAddress:
        """This process."""
        return _HERE

    async def ask(self, node: NodeAddress, frame: bytes) -> bytes:
        """What the coordinator answers."""
        answer: bytes = await asyncio.wrap_future(self._host.run(self._exchange(frame)))
        return answer

    async def parts(self, node: NodeAddress, frame: bytes) -> AsyncIterator[bytes]:
        """The same, in one."""
        yield await self.ask(node, frame)

    def topics(self) -> Mapping[str, Topic]:
        """All topics by name."""
        found: Mapping[str, Topic] = self._host.parts.catalogue.topics()
        return found

    async def ends(self, wanted: Mapping[str, Sequence[int]]) -> Ends:
        """What was said of them, and never less than was committed."""
        return await asyncio.wrap_future(self._host.run(self._ends(wanted)))

    async def behind(self, committed: Sequence[tuple[Place, int]]) -> Sequence[Behind]:
        """By the ends that were said (`Coordinator.set_end_offsets`)."""
        host = self._host
        return await lags.behind(host.lag, host.run, committed, lambda: host.clock.now_ms())

    async def lag_history(self, group_id: str) -> Mapping[Place, Sequence[tuple[int, int]]]:
        """Of the groups that are furthest behind, by the same ends."""
        return await lags.lag_history(self._host.lag, self._host.run, group_id)

    def events(self) -> EventStream:
        """What happens to groups from now on."""
        return self._host.events(10_000)

    def past(self, group_id: str) -> Past:
        """What the recorder kept, over restarts."""
        if self._host.recorder is None or self._host.event_files is None:
            return Past((), None)
        self._host.recorder.flush()
        return Past(*self._host.event_files.events_of(group_id))

    def kept_mark(self, group_id: str) -> object:
        """Nobody else hears of a group."""
        return None

    def rebalanced_since(self, since_ms: int) -> Sequence[tuple[str, int]] | None:
        """What the recorder kept, likewise."""
        files = self._host.event_files
        return files.rebalanced_since(since_ms) if files is not None else None

    def figures(self) -> Figures:
        """Counts of the node; blocks until its loop has them."""
        return self._host.run(self._figures()).result(_SAMPLE_SECONDS)

    def metrics(self, accept: str) -> tuple[bytes, str]:
        """For Prometheus."""
        return exposed(self._registry, accept)

    def lag_metrics(self) -> Iterable[Metric]:
        """How far groups are behind; nothing where no events are kept. Blocks, likewise."""
        lag = self._host.lag
        if lag is None:
            return ()
        lags = self._host.run(lag.lags(self._host.clock.now_ms())).result(_SAMPLE_SECONDS)
        return lag_metrics(lags, lag.limits.series)

    def is_ready(self) -> bool:
        """Whether the coordinator runs."""
        return not self._host.closed

    async def _ends(self, wanted: Mapping[str, Sequence[int]]) -> Ends:
        parts = self._host.parts
        topics = parts.catalogue.topics()
        ends: Ends = {}
        for name, partitions in wanted.items():
            if (topic := topics.get(name)) is None:
                continue
            furthest = parts.runtime.furthest_offsets(name, partitions)
            for partition, offset in zip(partitions, furthest, strict=True):
                ends[name, partition] = max(offset, topic.end_offset(partition))
            await asyncio.sleep(0)
        return ends

    async def _figures(self) -> Figures:
        runtime = self._host.parts.runtime
        figures: Figures = dict(self._host.parts.node.stats())
        figures |= {"shards_led": runtime.shards_led, "shards_away": runtime.shards_away}
        if self._host.recorder is not None:
            figures["events_not_kept_total"] = dict(self._host.recorder.not_kept)
        size_bytes = getattr(runtime.log, "size_bytes", None)
        return figures | ({"log_bytes": size_bytes} if size_bytes is not None else {})


class _Stats(Collector):
    def __init__(self, source: EmbeddedSource) -> None:
        self._source = source

    def describe(self) -> list[Metric]:
        return []  # asked at the start, when there may be no node yet

    def collect(self) -> list[Metric]:
        figures = self._source.figures()
        found = [*metrics_of(figures), *self._source.lag_metrics()]
        for name, text in (
            ("shards_led", "Shards that this process serves."),
            ("shards_away", "Shards that failed and are not loaded again yet."),
            ("log_bytes", "Size of the log's segments."),
        ):
            if name in figures:
                found.append(GaugeMetricFamily(f"pykcoord_{name}", text, value=figures[name]))
        return found
