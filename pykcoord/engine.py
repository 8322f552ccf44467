"""The engine, assembled once: a node of shards, the log they write, their topics, and the loop.

`Coordinator`, `pykcoord serve` and the hosts of a cluster differ in their clients and in the place
of the log. The parts between are put together here. No sockets, and no decisions of the
coordinator.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self

from pykcoord._native import Node
from pykcoord.catalogue import (
    STATE_FILE,
    Changed,
    TopicCatalogue,
    native_end_offsets,
    native_topic,
    native_topics,
)
from pykcoord.clock import Clock, monotonic_seconds
from pykcoord.compaction import start_compaction
from pykcoord.config import Config
from pykcoord.group_config import native_group_configs
from pykcoord.keeping import Keeping, keep_in_files
from pykcoord.lag import LagLimits
from pykcoord.lag_watch import LagWatch
from pykcoord.leading import FixedShards
from pykcoord.log import Holding, LogDirectory, Part
from pykcoord.log.protocol import Flush, Log, LogObserver, OnCorruption
from pykcoord.log.state_file import StateFile
from pykcoord.observers import in_steps
from pykcoord.recorded import Recorded
from pykcoord.recorder import Recorder, watch_topics
from pykcoord.runtime import Runtime
from pykcoord.runtime_parts import RuntimeMetrics
from pykcoord.server_assignors import Given, ServerAssignors, configured
from pykcoord.snapshots import start_snapshots
from pykcoord.storing import Store

__all__ = ["Directory", "Engine", "Observer", "Topics", "begin_topics", "tell_topics"]

logger = logging.getLogger("pykcoord.engine")

_SEED_BYTES = 32
# How often each shard's groups are looked at for partitions that fall behind.
_LAG_SECONDS = 30.0

Topics = Mapping[str, int] | TopicCatalogue
"""Name to number of partitions, for a catalogue that is kept with the log; or a catalogue."""


class Observer(RuntimeMetrics, Protocol):
    """Counts turns, and the work of the log."""

    @property
    def log_observer(self) -> LogObserver:
        """Called by the log's writer."""


@dataclass(frozen=True, slots=True)
class Directory:
    """A directory, `path`, that holds the log of all shards; `flush` and `on_corruption` as for
    `serve`. `part`: the shards to lead, where another process holds the directory; `topics_in`
    says then how the topics are kept in their file there."""

    path: Path
    flush: Flush = "commit"
    on_corruption: OnCorruption = "refuse"
    part: Part | None = None
    topics_in: Callable[[StateFile], Store] = lambda file: file


class Engine:
    """A coordinator that is loaded, and waits for a transport: `runtime.start` begins to serve.

    Made by `open`. The opener calls `close`, after the runtime was stopped or halted.
    """

    def __init__(
        self, config: Config, node: Node, log: Log, runtime: Runtime, catalogue: TopicCatalogue
    ) -> None:
        self.config = config
        self.node = node
        self.log = log
        self.runtime = runtime
        self.catalogue = catalogue
        self.recorder: Recorder | None = None
        self.event_files: Recorded | None = None
        self.lag: LagWatch | None = None

    @classmethod
    def open(
        cls,
        store: Directory | Log,
        config: Config,
        catalogue: Topics,
        observer: Observer | None = None,
        *,
        clock: Clock | None = None,
        tells_events: bool = False,
        tells_starts: bool = False,
        new_runtime: Callable[..., Runtime] = Runtime,
        assignors: Given | None = None,
        keep: Callable[[], Keeping] | None = None,
    ) -> Engine:
        """Open the log, load what it holds, and have the node know the topics. Blocks.

        Of a `Directory` all shards are led from the start, or its part of them. Of a log that is
        open already none is led: `Runtime.adopt` says which to lead, and when. `catalogue`: topics
        that are to be there at least, or the catalogue of a cluster. `tells_events`: whether
        `Runtime.on_event` hears of rebalances that loading starts, too; `tells_starts`: whether
        those are logged. `new_runtime` makes the loop (a kind of `Runtime`). `assignors` stand in
        the place of `group.consumer.assignors`.
        `keep` says where what happens to groups is kept, where `group.events.enable` wants that; of
        a directory this is beside its log, and otherwise None keeps nothing.

        Raises LogLockedError, CorruptLogError, ConfigError, OSError and ReplayError for a
        directory, StoredCatalogueError and ArgumentError for its topics. Nothing is left open then,
        but a log that was open already stays open.
        """
        seed = secrets.token_bytes(_SEED_BYTES)
        names, own = configured(config) if assignors is None else assignors
        native = config.native()
        native["consumer"]["assignors"] = [*names]
        clock = clock or Clock()

        def assemble(node: Node, log: Log, topics: TopicCatalogue) -> Engine:
            node.send_in_parts()
            node.compute_targets_aside()
            runtime = new_runtime(node, log, clock, observer)
            runtime.tell_events(tells_events)
            if tells_starts:
                runtime.tell_starts()
            if config.transactional_commits_enable:
                runtime.serve_transactions()
            if own:
                timeout_ms = config.group_consumer_assignor_timeout_ms
                runtime.call_assignors(ServerAssignors(own, timeout_ms))
            tell_topics(runtime, topics)
            return cls(config, node, log, runtime, topics)

        if not isinstance(store, Directory):
            node = Node(native, store.shards, seed)
            engine = assemble(node, store, _catalogue(catalogue, None))
            for shard in range(store.shards):
                engine.runtime.release(shard)
            if keep is not None and config.group_events_enable:
                engine._record(keep(), clock)
            return engine
        node = Node(native, config.offsets_topic_num_partitions, seed)
        log = _open_directory(store, config, node, observer)
        try:
            engine = assemble(
                node, log, _catalogue(catalogue, store.topics_in(log.state_file(STATE_FILE)))
            )
            if config.group_events_enable:
                engine._record(keep_in_files(store.path, config), clock)
            engine._load(log)
        except BaseException:
            log.close()
            raise
        return engine

    def close(self) -> None:
        """Close the log: all appends so far are written and synced. Raises OSError or LogError
        where that fails."""
        self.catalogue.close()
        if self.recorder is not None:
            self.recorder.close()
        self.log.close()

    def _record(self, keeping: Keeping, clock: Clock) -> None:
        """Keep what happens from now on."""
        of, node = self.config, self.node
        self.recorder = Recorder(
            keeping.keeper, clock.now_ms, lambda: int(node.stats()["events_dropped_total"])
        )
        self.event_files = Recorded(keeping.place, node.shards)
        self.runtime.record(self.recorder)
        watch_topics(self.recorder, self.catalogue)
        include = tuple(one.strip() for one in of.group_lag_metrics_include.split(","))
        bounds = LagLimits(of.group_lag_metrics_groups, of.group_lag_metrics_series, include)
        lag = self.lag = LagWatch(node, self.catalogue, self.recorder.take, bounds)
        self.recorder.on_taken = lag.hear

        async def look() -> None:
            while True:
                await asyncio.sleep(_LAG_SECONDS / node.shards)
                for _ in in_steps(lag.looking(clock.now_ms())):
                    await asyncio.sleep(0)

        self.runtime.beside.append(look)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _load(self, log: LogDirectory) -> None:
        """Takes its shards as the opened directory has loaded them, and starts the work in the
        background."""
        FixedShards(self.runtime, log.led).lead()
        start_snapshots(log, self.config)
        start_compaction(log, self.config)


def begin_topics(holding: Holding, topics: Mapping[str, int]) -> None:
    """Have the file of a directory's topics hold these at least, before others open its parts.
    Raises as `Engine.open` does."""
    TopicCatalogue(topics, holding.state_file(STATE_FILE))


def tell_topics(runtime: Runtime, catalogue: TopicCatalogue) -> None:
    """Have the node know the topics and what is set for groups, now and after each change."""
    known: object = None

    def tell_configs() -> None:
        nonlocal known
        if known is not (configs := catalogue.group_configs()):
            known = configs
            runtime.set_group_configs(native_group_configs(configs))

    def tell(changed: Changed) -> None:
        now = [topic for _, topic in changed.values() if topic is not None]
        gone = [name for name, (_, topic) in changed.items() if topic is None]
        runtime.change_topics(list(map(native_topic, now)), gone, native_end_offsets(now))

    tell_configs()
    runtime.set_topics(native_topics(catalogue), native_end_offsets(catalogue.topics().values()))
    catalogue.on_topics(tell)
    catalogue.on_change(tell_configs)


def _catalogue(topics: Topics, state: Store | None) -> TopicCatalogue:
    return topics if isinstance(topics, TopicCatalogue) else TopicCatalogue(topics, state)


def _open_directory(
    directory: Directory, config: Config, node: Node, observer: Observer | None
) -> LogDirectory:
    log = LogDirectory.open(
        directory.path,
        partitions=config.offsets_topic_num_partitions,
        segment_bytes=config.offsets_topic_segment_bytes,
        flush=directory.flush,
        flush_interval_ms=config.log_flush_interval_ms,
        on_corruption=directory.on_corruption,
        observer=observer.log_observer if observer is not None else None,
        monotonic=monotonic_seconds,
        new_loader=node.loader,
        use_snapshots=config.pykcoord_snapshot_interval_ms > 0,
        part=directory.part,
    )
    for cut in log.cuts:
        logger.warning("%s", cut, extra={"event": "cut", **_texts(cut._asdict())})
    return log


def _texts(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields for a line of log: only types of JSON."""
    return {name: value if isinstance(value, int) else str(value) for name, value in fields.items()}
