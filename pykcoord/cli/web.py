"""The console of `pykcoord serve`: its options, and the server as the console asks it."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

from pykcoord.catalogue import Topic
from pykcoord.clock import Clock
from pykcoord.engine import Engine
from pykcoord.errors import KcoordError
from pykcoord.event_stream import EventStream, EventStreams
from pykcoord.events import Event
from pykcoord.lag import Behind, Place
from pykcoord.server import Broker, Peers
from pykcoord.server.addresses import naming_address
from pykcoord.web import Ends, Figures, NodeAddress, Past, WebOptions, lags

__all__ = ["ServerSource", "console", "console_beside"]

logger = logging.getLogger("pykcoord.serve")

T = TypeVar("T")

_EVENTS = 10_000
_HERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}
# Of the families of metrics, which the page of the cluster shows.
_SHOWN = (
    "pykcoord_groups",
    "pykcoord_consumer_groups",
    "pykcoord_members",
    "pykcoord_offsets",
    "pykcoord_rebalances",
    "pykcoord_members_expired",
    "pykcoord_shards_led",
    "pykcoord_shards_away",
    "pykcoord_log_bytes",
    "pykcoord_log_written_bytes",
    "pykcoord_connections",
    "pykcoord_requests_in_flight",
    "pykcoord_append_failures",
)
_TIMED = ("pykcoord_request_seconds", "pykcoord_fsync_seconds", "pykcoord_append_seconds")


@contextmanager
def console(source: ServerSource, options: WebOptions) -> Iterator[str]:
    """The console within, and its URL. Raises OSError where its address cannot be had, and
    KcoordError where what it needs is not installed."""
    try:
        from pykcoord.web.listener import serve_console
    except ModuleNotFoundError as error:
        raise KcoordError(f"--web: {error}") from None
    with serve_console(source, options, Clock().now_ms) as served:
        try:
            yield served.url
        finally:
            source.end()


@asynccontextmanager
async def console_beside(source: ServerSource, options: WebOptions) -> AsyncIterator[None]:
    """The console within, begun and ended on another thread: its pages may wait for this loop.
    Raises as `console`; an error of its address names the option."""
    stack = ExitStack()
    with naming_address("--web", options.listen):
        url = await asyncio.to_thread(stack.enter_context, console(source, options))
    logger.info("console on %s", url, extra={"event": "web", "url": url})
    try:
        yield
    finally:
        await asyncio.to_thread(stack.close)


class Registered(Protocol):
    """Metrics of a server."""

    @property
    def registry(self) -> Any: ...


class ServerSource:
    """A `pykcoord.web.Source`: the server of this process, and the nodes beside it. Made on the
    server's loop."""

    def __init__(
        self,
        directory: Path | str,
        engine: Engine,
        metrics: Registered,
        node_id: int,
        address: tuple[str, int],
        peers: Peers | None,
    ) -> None:
        from pykcoord.web.asking import Connections

        self._directory = directory if isinstance(directory, Path) else None
        self.name = str(directory)
        self.shards = engine.node.shards
        self._engine = engine
        self._metrics = metrics
        self._peers = peers
        host, port = address
        self._own = NodeAddress(node_id, _HERE.get(host, host), port)
        self._connections = Connections()
        self._streams = EventStreams()
        self._loop = asyncio.get_running_loop()
        self._ended = False
        self._told_before = engine.runtime.on_event
        engine.runtime.on_event = self._hear

    is_watched = False

    def _hear(self, event: Event) -> None:
        if self._told_before is not None:
            self._told_before(event)
        self._streams.put(event)

    @property
    def hears_all(self) -> bool:
        """Likewise: what other nodes hear is read where they keep it."""
        return self.tells_all

    @property
    def tells_all(self) -> bool:
        """Whether this process is the only one."""
        return self._peers is None or len(self._peers.brokers()) == 1

    def hears(self, group_id: str) -> bool:
        """Of those that this process coordinates, and of all where the others are heard."""
        if self.hears_all:
            return True
        try:
            return self.coordinator(group_id) == self._own
        except OSError:
            return False

    def nodes(self) -> Sequence[NodeAddress]:
        """All nodes."""
        if self._peers is None:
            return [self._own]
        return [self._address(one) for one in self._peers.brokers()]

    @property
    def controller(self) -> int | None:
        """The node that changes topics (`pykcoord.cli.nodes`)."""
        return self._peers.controller_id if self._peers is not None else None

    def node_of(self, shard: int) -> int | None:
        """Shard s is led by node s mod N (`pykcoord.cli.nodes`)."""
        nodes = self.nodes()
        return nodes[shard % len(nodes)].node_id

    def coordinator(self, group_id: str) -> NodeAddress:
        """Who coordinates a group."""
        if self._peers is None:
            return self._own
        if (found := self._peers.coordinator(group_id)) is None:
            raise ConnectionError("no node coordinates that group now")
        return self._address(found)

    async def ask(self, node: NodeAddress, frame: bytes) -> bytes:
        """Over TCP, as any client."""
        return await self._connections.ask(node, frame)

    def parts(self, node: NodeAddress, frame: bytes) -> AsyncIterator[bytes]:
        """Likewise."""
        return self._connections.parts(node, frame)

    def topics(self) -> Mapping[str, Topic]:
        """All topics by name."""
        return self._engine.catalogue.topics()

    async def ends(self, wanted: Mapping[str, Sequence[int]]) -> Ends:
        """What ListOffsets says."""
        from pykcoord.web.ends import list_ends

        return await list_ends(self.ask, self._own, wanted)

    async def behind(self, committed: Sequence[tuple[Place, int]]) -> Sequence[Behind]:
        """By the ends that were said (`--end-offsets`)."""
        return await lags.behind(self._engine.lag, self._run, committed, lambda: Clock().now_ms())

    async def lag_history(self, group_id: str) -> Mapping[Place, Sequence[tuple[int, int]]]:
        """Of the groups of this process that are furthest behind, by the same ends."""
        return await lags.lag_history(self._engine.lag, self._run, group_id)

    def _run(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def events(self) -> EventStream:
        """What happens to groups of this process from now on."""
        stream = self._streams.add(_EVENTS)
        self._loop.call_soon_threadsafe(self._engine.runtime.tell_events, True)
        return stream

    def past(self, group_id: str) -> Past:
        """What the recorder kept, over restarts; of groups of other nodes of this machine too."""
        files, recorder = self._engine.event_files, self._engine.recorder
        if files is None or recorder is None:
            return Past((), None)
        recorder.flush()
        return Past(*files.events_of(group_id))

    def kept_mark(self, group_id: str) -> object:
        """What nodes of this machine keep in their directory."""
        files = self._engine.event_files
        return files.mark(group_id) if files is not None else None

    def rebalanced_since(self, since_ms: int) -> Sequence[tuple[str, int]] | None:
        """What the recorder kept, likewise."""
        files = self._engine.event_files
        return files.rebalanced_since(since_ms) if files is not None else None

    def figures(self) -> Figures:
        """Those of the metrics that the page shows, and the snapshots in the directory."""
        figures: Figures = {}
        for family in self._metrics.registry.collect():
            name = family.name.removeprefix("pykcoord_")
            if family.name in _SHOWN:
                labelled = {
                    next(iter(one.labels.values())): one.value
                    for one in family.samples
                    if one.labels and not one.name.endswith("_created")
                }
                plain = [
                    one.value
                    for one in family.samples
                    if not one.labels and not one.name.endswith("_created")
                ]
                figures[name] = plain[0] if plain else labelled
            elif family.name in _TIMED:
                figures[name] = _timed(family.samples)
        snapshots = self._snapshots()
        return figures if snapshots is None else figures | {"snapshots": snapshots}

    def metrics(self, accept: str) -> tuple[bytes, str]:
        """For Prometheus."""
        from pykcoord.web.exposition import exposed

        return exposed(self._metrics.registry, accept)

    def is_ready(self) -> bool:
        """Whether clients are served, of all shards."""
        return not self._ended and self._engine.runtime.shards_away == 0

    def end(self) -> None:
        """No further events."""
        self._ended = True
        self._streams.end(None)

    def _address(self, broker: Broker) -> NodeAddress:
        own = broker.node_id == self._own.node_id
        return self._own if own else NodeAddress(broker.node_id, broker.host, broker.port)

    def _snapshots(self) -> Figures | None:
        if self._directory is None:
            return None
        found = []
        for path in self._directory.glob("__consumer_offsets-*/pykcoord.state"):
            try:
                found.append(path.stat())
            except FileNotFoundError:
                continue
        if not found:
            return {"count": 0}
        written = [one.st_mtime * 1000 for one in found]
        return {
            "count": len(found),
            "bytes": sum(one.st_size for one in found),
            "oldest_ms": int(min(written)),
            "newest_ms": int(max(written)),
        }


def _timed(samples: Sequence[object]) -> Figures:
    """Of a histogram, by its first label: count, sum, and the counts below its bounds."""
    found: Figures = {}
    for one in samples:
        name, labels, value = one.name, dict(one.labels), one.value  # type: ignore[attr-defined]
        bound = labels.pop("le", None)
        of = found.setdefault(next(iter(labels.values()), ""), {"count": 0, "sum": 0.0})
        if name.endswith("_count"):
            of["count"] = value
        elif name.endswith("_sum"):
            of["sum"] = value
        elif bound is not None:
            of.setdefault("buckets", {})[bound] = value
    return found
