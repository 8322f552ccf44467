"""One node of a cluster over a shared store: a server, and what drives its decisions.

It begins with no shard, and says NOT_COORDINATOR for all that it does not lead. A node that was
fenced begins anew, as another incarnation, at the same address.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from pykcoord._native import ClusterNode, Node
from pykcoord.catalogue import TopicCatalogue
from pykcoord.clock import monotonic_seconds
from pykcoord.cluster.asking import serve_asks
from pykcoord.cluster.cluster_log import begin
from pykcoord.cluster.driving import Driver, LeasedRuntime, how_to_say
from pykcoord.cluster.ends import EndsOfOthers, ends_here
from pykcoord.cluster.entering import require_same_secret
from pykcoord.cluster.hearing import EventsOfOthers, ToldEvents
from pykcoord.cluster.journals import Journaling, JournalLog, boot_ms
from pykcoord.cluster.looking import is_cluster, require_no_shard_log
from pykcoord.cluster.peers import ClusterPeers
from pykcoord.cluster.timing import Timing
from pykcoord.cluster.topics import SharedTopics, open_topics
from pykcoord.cluster.watched_store import WatchedStore
from pykcoord.cluster.watching import Watch
from pykcoord.config import Config
from pykcoord.engine import Engine
from pykcoord.errors import KcoordError
from pykcoord.event_stream import EventStreams
from pykcoord.events import Event
from pykcoord.keeping import keep_beside
from pykcoord.log.shared import open_store
from pykcoord.log.shared.rounds import round_name
from pykcoord.server import Server
from pykcoord.server.addresses import naming_address

if TYPE_CHECKING:
    from pykcoord.server.cluster_metrics import ClusterMetrics
    from pykcoord.server.metrics import ServerMetrics

__all__ = ["MemberOptions", "Serving", "Shown", "serve_member"]

logger = logging.getLogger("pykcoord.cluster")

_STOP_SECONDS = 5.0
_UNTOLD_SECONDS = 0.4
# A node that ends gives its shards to others; after so long it ends without.
_LEAVE_SECONDS = 10.0
_INCARNATIONS = 2**64
# Each so many snapshot intervals it is looked whether rounds can go.
_SNAPSHOTS_A_LOOK = 5
# The cluster log gets a snapshot after so many entries; those that are in the one before it go
# after so long. Who did not read the log for half of that begins anew.
_LOG_ENTRIES = 500
_TRIM_MS = 3_600_000
# A node that is fenced again and again, and that no controller reaches in between, waits so long
# before it joins: first, and at most. Each time leaves some objects for good.
_UNREACHED_SECONDS = (1.0, 30.0)
_BEGINS_ANEW = {
    "fenced": "this node was fenced, as it did not answer for long; it begins anew",
    "behind": "this node did not read the cluster log for so long that it may have missed entries "
    "that are gone; it begins anew",
}


@dataclass(frozen=True, slots=True)
class MemberOptions:
    """`location` is a folder or URL that all nodes see; `listen` and `advertise` are for clients,
    `control` and `control_advertise` for the other nodes; each is a host and a port, port 0 takes a
    free one. `topics` are to be there at least. `secret` is that of all nodes, which they prove to
    know at `control`. `broker_configs` is what DescribeConfigs shows."""

    location: str
    listen: tuple[str, int]
    control: tuple[str, int]
    advertise: tuple[str, int] | None = None
    topics: Mapping[str, int] | None = None
    secret: str | None = None
    control_advertise: tuple[str, int] | None = None
    broker_configs: Mapping[str, str] = field(default_factory=dict)


class Serving(NamedTuple):
    """A node that serves clients: its engine, its `address`, and what it knows of the others.
    `hear_others(put)` is what has `put` hear of the others' groups."""

    engine: Engine
    address: tuple[str, int]
    peers: ClusterPeers
    hear_others: Callable[[Callable[[Event], None]], EventsOfOthers]


Shown = Callable[[Serving], contextlib.AbstractAsyncContextManager[None]]
"""Shows a node to people, within; entered for each incarnation, on the node's loop."""


async def serve_member(
    config: Config,
    options: MemberOptions,
    asked_to_end: asyncio.Future[str],
    ready: Callable[[tuple[str, int], int], None],
    *,
    store: WatchedStore | None = None,
    metrics: ClusterMetrics | None = None,
    at_once: Collection[str] = (),
    shown: Shown | None = None,
    failing: Callable[[], None] | None = None,
) -> None:
    """Serve until `asked_to_end` is done. `ready(address, shards)` is called once, when the node
    belongs to the cluster. `store` is the one at the location, if it is open already. A node that
    ends gives its shards to others, but not where `asked_to_end` is one of `at_once`: then all are
    to end. `shown` is a console, where there is one. `failing` is called when the code has failed:
    nothing is served any more, and the process must end soon, also where this does not return: it
    waits for disks. Raises AddressError, KcoordError for a cluster that this node cannot belong to,
    or that is not there and is not to be made, and for such a failure, and what the store raises at
    the start."""
    store = store or WatchedStore(open_store(options.location), config.node_id)
    require_no_shard_log(options.location, store)
    if not config.pykcoord_cluster_create_enable and not is_cluster(store):
        raise KcoordError(
            f"{options.location}: there is no cluster, and node {config.node_id} is to make none "
            "(pykcoord.cluster.create.enable=false). Is the right folder mounted?"
        )
    begin(options.location, store)
    await require_same_secret(store, options.location, options.secret)
    unreached = 0
    while not asked_to_end.done():
        wait = _join_wait(unreached)
        member = _Member(
            config, options, store, ready, metrics, at_once, shown, failing or _nothing,
            join_wait_seconds=wait,
        )  # fmt: skip
        ended = await member.run(asked_to_end)
        if ended not in _BEGINS_ANEW:
            return
        unreached = 0 if member.was_reached else unreached + 1
        logger.warning(_BEGINS_ANEW[ended], extra={"event": ended, "node": config.node_id})
        if ended == "fenced" and metrics is not None:
            metrics.fenced()
        options = member.same_place()
        ready = _nothing


def _join_wait(unreached: int) -> float:
    least, most = _UNREACHED_SECONDS
    return min(most, least * 2.0 ** min(unreached - 2, 10)) if unreached > 1 else 0.0


def _nothing(*said: object) -> None:
    """It was said before, or nobody hears of it."""


class _Member:
    def __init__(
        self,
        config: Config,
        options: MemberOptions,
        store: WatchedStore,
        ready: Callable[[tuple[str, int], int], None],
        metrics: ClusterMetrics | None,
        at_once: Collection[str],
        shown: Shown | None,
        failing: Callable[[], None],
        *,
        join_wait_seconds: float = 0.0,
    ) -> None:
        self._shown, self._failing = shown, failing
        self._join_wait_seconds = join_wait_seconds
        self._metrics = metrics
        self._at_once = at_once
        self._config = config
        self._options = options
        self._store = store
        self._ready = ready
        self._shards = config.offsets_topic_num_partitions
        self._peers = ClusterPeers(self._shards)
        self._timing = Timing.of(options.location)
        self._topics = SharedTopics(store)
        self._topics_told = asyncio.Event()
        self._topics_told.set()  # they may have changed since they were read, unheard by this one
        self._topics_thread = ThreadPoolExecutor(1, thread_name_prefix="pykcoord-topics")
        self._ended = asyncio.Event()
        self._is_ready = False
        self._waits = False

    def same_place(self) -> MemberOptions:
        """Options of another incarnation at the addresses of this one."""
        return replace(self._options, listen=self._address, control=self._control, topics=None)

    @property
    def was_reached(self) -> bool:
        """Whether a controller has asked it."""
        return self._driver.was_asked

    async def run(self, asked_to_end: asyncio.Future[str]) -> str:
        """Why it has ended: "fenced", "behind", "left", "asked"."""
        incarnation = secrets.randbelow(_INCARNATIONS)
        hearing = _Hearing()
        log = JournalLog(self._store, self._shards, incarnation, hearing)
        self._catalogue = open_topics(self._topics, self._options.topics)
        metrics = self._metrics.begin_server() if self._metrics is not None else None
        store, config, location = self._store, self._config, self._options.location
        engine = Engine.open(
            log, config, self._catalogue, metrics, new_runtime=LeasedRuntime,
            keep=lambda: keep_beside(location, store, incarnation, config),
        )  # fmt: skip
        assert isinstance(engine.runtime, LeasedRuntime)
        told = EventStreams()
        engine.runtime.on_event = told.put
        server = self._server(engine, self._catalogue, metrics)
        try:
            with naming_address("--listen", self._options.listen):
                await server.start()
            driver: Driver | None = None

            def answer(ask: tuple[Any, ...], topics: int) -> tuple[tuple[Any, ...], int]:
                assert driver is not None
                return driver.asked(ask, topics)

            with naming_address("--control", self._options.control):
                control = await serve_asks(
                    self._options.control,
                    answer,
                    self._options.secret,
                    lambda wanted: ends_here(engine.runtime, wanted),
                    lambda: ToldEvents(engine.runtime, told),
                    engine.runtime.fail,
                )
            self._address = server.address
            self._control = (self._options.control[0], control.sockets[0].getsockname()[1])
            node = ClusterNode(
                incarnation,
                self._config.node_id,
                self._options.advertise or self._address,
                self._options.control_advertise or self._control,
                self._shards,
                self._settings(),
                boot_ms(),
            )
            driver = Driver(
                location,
                store,
                node,
                engine.runtime,
                new_loader=lambda: Node(self._config.native(), 1, os.urandom(32)).loader(),
                changed=self._changed,
                ended=self._ended.set,
                topics_changed=self._topics_told.set,
                watch=Watch(node, self._config.node_id, self._timing.lease_ms, self._metrics),
                secret=self._options.secret,
            )
            hearing.driver = driver
            self._driver = driver
            self._peers.others = others = EndsOfOthers(node, self._options.secret)
            self._catalogue.on_change(lambda: driver.know_topics(self._topics.version))
            driver.know_topics(self._topics.version)
            driver.start(log)
            engine.runtime.spawn(self._follow_topics())
            try:
                async with contextlib.AsyncExitStack() as stack:
                    if self._shown is not None:
                        hear = partial(EventsOfOthers, node, self._options.secret)
                        serving = Serving(engine, self._address, self._peers, hear)
                        await stack.enter_async_context(self._shown(serving))
                    return await self._until_ended(driver, server, asked_to_end)
            finally:
                control.close()
                told.end(None)
                driver.close()
                others.close()
        finally:
            await server.stop(_STOP_SECONDS)
            if engine.recorder is not None:
                await asyncio.to_thread(engine.recorder.close)
            log.close()

    def _settings(self) -> tuple[int, int, int, int, int, int, int, int, int]:
        waits = self._timing
        snapshot_ms = self._config.pykcoord_cluster_snapshot_interval_ms
        rounds = self._config.pykcoord_cluster_prune_rounds
        of_store = (waits.lease_ms, waits.poll_ms, waits.store_silence_ms)
        pruning = (snapshot_ms, rounds, _SNAPSHOTS_A_LOOK * snapshot_ms)
        of_log = (_LOG_ENTRIES, _TRIM_MS)
        return (*of_store, *pruning, int(1000 * self._join_wait_seconds), *of_log)

    def _server(
        self, engine: Engine, catalogue: TopicCatalogue, metrics: ServerMetrics | None
    ) -> Server:
        return Server(
            self._config,
            engine.runtime,
            catalogue,
            cluster_id=catalogue.cluster_id,
            listen=self._options.listen,
            advertise=self._options.advertise,
            metrics=metrics,
            broker_configs=self._options.broker_configs,
            peers=self._peers,
            event_files=engine.event_files,
        )

    async def _until_ended(
        self, driver: Driver, server: Server, asked_to_end: asyncio.Future[str]
    ) -> str:
        server_ended = asyncio.ensure_future(server.wait_ended())
        node_ended = asyncio.ensure_future(self._ended.wait())
        ways = (asked_to_end, server_ended, node_ended)
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            if server_ended.done():
                self._failing()
                self._raise_fault(server_ended)
            if not node_ended.done():
                logger.info("%s: ending", asked_to_end.result(), extra={"event": "stop"})
                hands_over = asked_to_end.result() not in self._at_once
                if hands_over and len(driver.node.members) > 1:
                    driver.leave()
                    await asyncio.wait((node_ended,), timeout=_LEAVE_SECONDS)
        finally:
            for waiting in (node_ended, server_ended):
                waiting.cancel()
        return self._outcome(driver)

    def _raise_fault(self, server_ended: asyncio.Future[None]) -> None:
        try:
            server_ended.result()
        except RuntimeError as error:
            raise KcoordError(
                f"node {self._config.node_id} of {self._options.location} has ended: {error}. "
                "Nothing that was acknowledged is lost, and the other nodes lead its shards: start "
                "it again, and report the lines above"
            ) from error

    def _outcome(self, driver: Driver) -> str:
        if driver.failure is not None:
            raise KcoordError(driver.failure)
        stop = driver.node.stop or "asked"
        if driver.node.lost_rounds is not None:
            self._say_lost(*driver.node.lost_rounds)
        if stop in ("left", "asked", *_BEGINS_ANEW):
            return stop
        raise KcoordError(
            f"{self._options.location}: {stop}; this node was started for {self._shards} shards "
            "(offsets.topic.num.partitions)"
        )

    def _changed(self) -> None:
        """The node has read news of the cluster."""
        node = self._driver.node
        self._peers.show(node)
        self._say_waits()
        self._say_new()
        own = [one for one in node.members if one[0] == self._driver.log.incarnation]
        if own and not self._is_ready:
            self._is_ready = True
            self._topics_told.set()  # what changed since they were read, nobody has told this one
            self._ready(self._address, self._shards)

    async def _follow_topics(self) -> None:
        """Read the topics again when another node has changed them: the controller tells. Now and
        then also unasked, for what could not be read then."""
        loop = asyncio.get_running_loop()
        while True:
            looked_at = monotonic_seconds()
            while not self._topics_told.is_set():
                if monotonic_seconds() > looked_at + self._timing.topics_seconds:
                    break
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_UNTOLD_SECONDS):
                        await self._topics_told.wait()
                if not self._driver.is_told_news(_UNTOLD_SECONDS):
                    break  # it does not belong to the cluster yet, or there is no controller
            self._topics_told.clear()
            try:
                newest = await loop.run_in_executor(self._topics_thread, self._topics.newest)
                if newest > self._topics.version:
                    for changes in self._catalogue.pending():  # it may be what this node writes
                        await changes.ended()
                if newest > self._topics.version or self._catalogue.is_behind:
                    await self._catalogue.reload_soon()
            except Exception as error:  # the others read the same
                level, fault = how_to_say(error)
                logger.log(level, "topics cannot be read: %s", error, exc_info=fault)

    def _say_new(self) -> None:
        if self._driver.made_cluster:
            self._driver.made_cluster = False
            node, location = self._config.node_id, self._options.location
            logger.warning(
                "there was no cluster at %s, node %d has made one: if there ought to be one, end "
                "this node, and look whether its folder is mounted",
                location,
                node,
                extra={"event": "new_cluster", "node": node, "location": location},
            )

    def _say_lost(self, start: int, end: int) -> None:
        incarnation = self._driver.log.incarnation
        first, last = round_name(incarnation, start), round_name(incarnation, end - 1)
        logger.error(
            "the store of node %d has lost what stood there: rounds %s to %s. Commits that were "
            "acknowledged by them are lost",
            self._config.node_id,
            first,
            last,
            extra={"event": "rounds_lost", "node": self._config.node_id, "rounds": end - start},
        )

    def _say_waits(self) -> None:
        other = self._driver.node.waits_for
        if other is not None and not self._waits:
            logger.warning(
                "node %d is at %s:%d still; this one begins when that one has ended",
                self._config.node_id,
                *other,
            )
        self._waits = other is not None


class _Hearing(Journaling):
    """The journal begins before its driver, which needs the addresses."""

    driver: Driver | None = None

    def proved(self, started: int, next_index: int, leaderships: Sequence[tuple[int, int]]) -> None:
        if self.driver is not None:
            self.driver.proved(started, next_index, leaderships)

    def prove_failed(self) -> None:
        if self.driver is not None:
            self.driver.prove_failed()

    def fenced(self) -> None:
        if self.driver is not None:
            self.driver.fenced()

    def failed(self, error: BaseException) -> None:
        if self.driver is None:
            raise error
        self.driver.failed(error)
