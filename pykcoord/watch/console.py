"""The console of watched groups: what was read of their cluster, as the console asks for it.

Nothing is asked of the cluster for a page: groups and offsets come from what the watcher knows.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from pykcoord._native import partition_of
from pykcoord.catalogue import Topic
from pykcoord.clock import Clock, monotonic_seconds
from pykcoord.errors import KcoordError
from pykcoord.event_stream import EventStream, EventStreams
from pykcoord.lag import Behind
from pykcoord.watch.following import TOPIC
from pykcoord.watch.metrics import WatchMetrics
from pykcoord.watch.model import WatchedGroup, WatchedOffset
from pykcoord.watch.watcher import Watcher
from pykcoord.web import Ends, Figures, NodeAddress, Past
from pykcoord.web.exposition import exposed
from pykcoord.web.index import IndexBuilder, Kind, tail
from pykcoord.web.reading import Group, Member, Place

__all__ = ["WatchReading", "WatchSource"]

T = TypeVar("T")
_ALL = NodeAddress(0, "", 0)
_CHUNK = 1_000
# Groups are gathered anew after so many times what it took.
_KEPT_FACTOR = 10.0
_SAMPLE_SECONDS = 10.0


class _Tables(NamedTuple):
    """All groups at one moment."""

    version: object
    until: float
    groups: dict[str, WatchedGroup]
    offsets: dict[str, list[WatchedOffset]]


class WatchSource:
    """A `pykcoord.web.Source` of a watcher; made on the watcher's loop."""

    tells_all = hears_all = True
    is_watched = True
    controller = None  # brokers of KRaft name any of them

    def __init__(self, watcher: Watcher, metrics: WatchMetrics) -> None:
        self._watcher = watcher
        self._metrics = metrics
        self._loop = asyncio.get_running_loop()
        self._streams = EventStreams()
        self._tables: _Tables | None = None
        self._topics: tuple[int, dict[str, Topic]] = (-1, {})
        self._ended = False

    @property
    def name(self) -> str:
        """The cluster, by its addresses."""
        return f"Kafka at {self._watcher.settings.client.bootstrap_servers}"

    @property
    def shards(self) -> int:
        """Partitions of `__consumer_offsets`; one where they may not be read."""
        topic = self._watcher.cluster.view.topics.get(TOPIC)
        return len(topic.leaders) if topic is not None and topic.leaders else 1

    def hears(self, group_id: str) -> bool:
        """Of all groups."""
        return True

    def nodes(self) -> Sequence[NodeAddress]:
        """The brokers."""
        brokers = self._watcher.cluster.view.brokers
        return [NodeAddress(of.node_id, of.host, of.port) for _, of in sorted(brokers.items())]

    def node_of(self, shard: int) -> int | None:
        """The broker that leads a partition."""
        leader = self._watcher.cluster.view.leader(TOPIC, shard).node_id
        return leader if leader >= 0 else None

    def coordinator(self, group_id: str) -> NodeAddress:
        """Nobody is asked: all is here."""
        return _ALL

    async def ask(self, node: NodeAddress, frame: bytes) -> bytes:
        """Nothing is asked of the cluster for the console."""
        raise KcoordError("groups of this cluster are only watched")

    async def parts(self, node: NodeAddress, frame: bytes) -> AsyncIterator[bytes]:
        """Nothing, likewise."""
        yield await self.ask(node, frame)

    def topics(self) -> Mapping[str, Topic]:
        """All topics that may be seen."""
        view = self._watcher.cluster.view
        if self._topics[0] != view.version:
            topics = {
                name: Topic(name, of.topic_id, max(of.leaders, default=-1) + 1)
                for name, of in view.topics.items()
            }
            self._topics = view.version, topics
        return self._topics[1]

    async def ends(self, wanted: Mapping[str, Sequence[int]]) -> Ends:
        """As leaders told them; without those that are too old."""
        known, oldest_ms = self._watcher.ends.known, self._watcher.settings.oldest_end_ms
        now = monotonic_seconds()
        return {
            (topic, one): end.offset
            for topic, partitions in wanted.items()
            for one in partitions
            if (end := known.get((topic, one))) and (now - end.as_of) * 1000 <= oldest_ms
        }

    async def behind(self, committed: Sequence[tuple[Place, int]]) -> Sequence[Behind]:
        """By the ends that leaders told."""

        async def look() -> Sequence[Behind]:
            now_ms, times = Clock().now_ms(), self._watcher.end_times
            return [Behind(*times.behind_ms(place, at, now_ms)) for place, at in committed]

        return await asyncio.wrap_future(self.run(look()))

    async def lag_history(self, group_id: str) -> Mapping[Place, Sequence[tuple[int, int]]]:
        """Of the groups that are furthest behind, by the same ends."""

        async def look() -> Mapping[Place, Sequence[tuple[int, int]]]:
            return self._watcher.lag_history.of(group_id)

        return await asyncio.wrap_future(self.run(look()))

    def events(self) -> EventStream:
        """What the log told so far, and what it tells from now on; nothing where it may not be
        read."""
        telling = self._watcher.telling
        return telling.events() if telling is not None else self._streams.add(1)

    def past(self, group_id: str) -> Past:
        """Since when the log tells of a group; `events` has all of it."""
        telling = self._watcher.telling
        if telling is None:
            return Past((), None)
        return Past((), telling.since_ms(partition_of(group_id, self.shards)))

    def kept_mark(self, group_id: str) -> object:
        """Nobody else hears of a group."""
        return None

    def rebalanced_since(self, since_ms: int) -> Sequence[tuple[str, int]] | None:
        """None beside those of `events`."""
        return () if self._watcher.telling is not None else None

    def figures(self) -> Figures:
        """What is known of the cluster as a whole."""
        tables = self.run(self._gathered()).result(_SAMPLE_SECONDS)
        follower = self._watcher.follower
        figures: Figures = {
            "members": sum(len(group.members) for group in tables.groups.values()),
            "offsets": sum(map(len, tables.offsets.values())),
            "watch_mode": self._watcher.mode,
        }
        if follower is not None:
            figures |= {"read_records": follower.counts["records"]}
            figures |= {"behind_records": follower.behind_records}
        return figures

    def metrics(self, accept: str) -> tuple[bytes, str]:
        """For Prometheus."""
        return exposed(self._metrics.registry, accept)

    def is_ready(self) -> bool:
        """Whether all is read that the cluster has."""
        follower = self._watcher.follower
        return not self._ended and (follower is None or follower.is_caught_up)

    def end(self) -> None:
        """No further events."""
        self._ended = True
        self._streams.end(None)
        if self._watcher.telling is not None:
            self._watcher.telling.end()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """On the watcher's loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    async def tables(self) -> _Tables:
        """All groups and offsets, as of a moment ago."""
        return await asyncio.wrap_future(self.run(self._gathered()))

    async def _gathered(self) -> _Tables:
        began, source = monotonic_seconds(), self._watcher.source
        kept = self._tables
        if kept is not None and (kept.version == source.version or began < kept.until):
            return kept
        wanted: Callable[[str], bool] = self._watcher.wanted
        groups = {one.group_id: one for one in source.groups() if wanted(one.group_id)}
        offsets: dict[str, list[WatchedOffset]] = {}
        for of in source.offsets():
            if wanted(of.group_id):
                offsets.setdefault(of.group_id, []).append(of)
        now = monotonic_seconds()
        until = now + _KEPT_FACTOR * (now - began)
        self._tables = _Tables(source.version, until, groups, offsets)
        return self._tables


class WatchReading:
    """Groups for pages, from a watcher: `pykcoord.web.reading.Reads`."""

    def __init__(self, source: WatchSource) -> None:
        self._source = source

    async def ask(self, node: NodeAddress, request: object) -> Any:
        """Nothing is asked of the cluster for the console."""
        raise KcoordError("groups of this cluster are only watched")

    async def list_into(self, builder: IndexBuilder, node: NodeAddress) -> int:
        """The groups that a broker coordinates, as far as its partitions are known."""
        tables, source = await self._source.tables(), self._source
        shards = source.shards
        first = next(iter(source.nodes()), None)
        nodes = {at: source.node_of(at) for at in range(shards)}
        by_default = first is not None and node.node_id == first.node_id

        async def chunks() -> AsyncIterator[list[tuple[bytes, bytes]]]:
            chunk: list[tuple[bytes, bytes]] = []
            for group in tables.groups.values():
                owner = nodes[partition_of(group.group_id, shards)]
                if owner != node.node_id and not (owner is None and by_default):
                    continue
                kind = tail(Kind("consumer", group.state, group.type))
                chunk.append((group.group_id.encode("utf-8", "surrogatepass"), kind))
                if len(chunk) == _CHUNK:
                    yield chunk
                    chunk = []
                    await asyncio.sleep(0)
            if chunk:
                yield chunk

        return await builder.put(chunks())

    async def groups(self, wanted: Mapping[str, str | None]) -> dict[str, Group]:
        """Those groups that are there."""
        groups = (await self._source.tables()).groups
        return {one: _group(groups[one]) for one in wanted if one in groups}

    async def offsets(self, group_ids: Sequence[str]) -> dict[str, dict[Place, tuple[int, str]]]:
        """Committed offsets with their metadata, by group and partition."""
        offsets = (await self._source.tables()).offsets
        return {
            one: {(of.topic, of.partition): (of.offset, of.metadata) for of in offsets.get(one, ())}
            for one in group_ids
        }


def _group(of: WatchedGroup) -> Group:
    return Group(
        of.group_id, of.type, of.state, "consumer" if of.members or of.epoch is not None else "",
        of.protocol, [_member(one) for one in of.members],
        of.epoch if of.type != "classic" else None,
    )  # fmt: skip


def _member(of: Any) -> Member:
    owned = {topic: list(partitions) for topic, partitions in sorted(of.owned.items())}
    return Member(
        of.member_id, of.instance_id, of.client_id, of.client_host, owned, list(of.subscribed),
        epoch=of.epoch, is_classic=of.epoch is None,
    )  # fmt: skip
