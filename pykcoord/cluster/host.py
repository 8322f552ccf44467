"""One host: a process that serves Kafka clients for the shards it is asked to lead.

pykcoord's own server and runtime, over the shared log. It begins with no shard, and says
NOT_COORDINATOR for all that it does not lead. Whether it may lead a shard is the shard log's to
say, what it ought to lead the controller's.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
import os
import secrets
import socket
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from pykcoord._native import partition_of
from pykcoord.clock import Clock, boot_seconds
from pykcoord.cluster.control import Answer, Ask, serve_control
from pykcoord.cluster.hosted_log import HostedLog
from pykcoord.cluster.leading import Leadership
from pykcoord.cluster.registry import HostEntry, Registry, ShardEntry, View
from pykcoord.cluster.snapshots import ShardSnapshots
from pykcoord.cluster.topics import SharedTopics, open_topics
from pykcoord.config import Config
from pykcoord.engine import Engine
from pykcoord.log.shared import open_logs, open_store
from pykcoord.runtime import Runtime
from pykcoord.server import Broker, Server

__all__ = ["HostOptions", "run_host"]

logger = logging.getLogger("pykcoord.cluster")

# A host that has not read the registry for so long looks before it serves: it may have slept.
_STALE_SECONDS = 1.0
# So long a superseded host still sends clients to the new ones.
_FAREWELL_SECONDS = 10.0
_NODE_IDS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class HostOptions:
    """The options of a host at its start; `to_json` and `of_json` carry them to another machine.

    `log` is a folder or URL, with `shards` shards. `bind` is the address to listen on, `advertise`
    the host name for clients (`bind` if empty), `ports` where one that is free is looked for (any
    if empty). `config` are Kafka's settings by Kafka's names. `application` is the term of the
    application, `slot` the host's number in it, from 0. `poll_seconds`: how often the store is
    asked for news; `snapshot_entries`: after how many entries of a shard its snapshot is written.
    """

    log: str
    shards: int
    application: int
    slot: int
    bind: str = "127.0.0.1"
    advertise: str = ""
    ports: Sequence[int] = ()
    config: Mapping[str, Any] = field(default_factory=dict)
    poll_seconds: float = 0.1
    snapshot_entries: int = 250

    def to_json(self) -> str:
        """As text."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        return json.dumps({**fields, "config": dict(self.config), "ports": list(self.ports)})

    @staticmethod
    def of_json(text: str) -> HostOptions:
        """Of text."""
        return HostOptions(**json.loads(text))


def run_host(options: HostOptions) -> str:
    """Serve until the application is stopped or superseded, or the controller has it leave; returns
    which: "stopped", "superseded", "left". Raises what is wrong with the log or the address, and
    RuntimeError when the parent process is gone."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(_Host(options).run())
    return uvloop.run(_Host(options).run())


class _Peers:
    """The registry as the node APIs ask it; see `pykcoord.server.Peers`."""

    controller_id: int | None = None  # each changes the topics that all share

    def __init__(self, shards: int) -> None:
        self.version = 0
        self.view = View()
        self._shards = shards

    def show(self, view: View) -> None:
        if view != self.view:
            self.view = view
            self.version += 1

    def brokers(self) -> list[Broker]:
        """Hosts of an application that died stay in the registry: of the latest, if it has any."""
        hosts = sorted(self.view.hosts.values(), key=lambda host: host.node_id)
        latest = [host for host in hosts if host.application == self.view.term]
        return [host.broker for host in latest or hosts]

    def ends(self, wanted: Mapping[str, Sequence[int]]) -> None:
        """A host knows those of its own shards alone."""

    def coordinator(self, group_id: str) -> Broker | None:
        return self.view.leader(partition_of(group_id, self._shards))


class _HostRuntime(Runtime):
    """A runtime that looks at the registry first where its process may have slept: it would answer
    heartbeats and fetches of shards that another leads by now."""

    host: _Host

    def wake(self) -> None:
        """See `Runtime`."""
        if self.host.is_fresh():
            super().wake()
        else:
            self.host.look_first(super().wake)


class _Host:
    def __init__(self, options: HostOptions) -> None:
        self._options = options
        self._store = open_store(options.log)
        self._registry = Registry(self._store)
        self._registry_thread = ThreadPoolExecutor(1, thread_name_prefix="pykcoord-registry")
        self._topics = SharedTopics(self._store)
        self._peers = _Peers(options.shards)
        self._entry: HostEntry | None = None
        self._read_at = boot_seconds()
        self._looking: asyncio.Task[None] | None = None
        self._parent = os.getppid()
        self._leaving = False

    async def run(self) -> str:
        """See `run_host`."""
        options = self._options
        open_logs(options.log, options.shards)
        config, _ = Config.of(options.config)
        config = dataclasses.replace(config, node_id=1 + secrets.randbelow(_NODE_IDS))
        clock = Clock()
        self._snapshots = ShardSnapshots(self._store, config.native(), options.snapshot_entries)
        log = HostedLog(
            self._store,
            options.shards,
            f"host {config.node_id}",
            clock.now_ms,
            self._snapshots.entry_was_put,
        )
        self._catalogue = open_topics(self._topics)
        engine = Engine.open(
            log,
            config,
            self._catalogue,
            clock=clock,
            tells_events=logging.getLogger("pykcoord.groups").isEnabledFor(logging.INFO),
            new_runtime=self._new_loop,
        )
        self._runtime = engine.runtime
        self._leadership = Leadership(self._runtime, log, announce=self._announce_shard)
        server = await self._listen(config)
        control = await serve_control(options.bind, options.application, self._asked)
        self._entry = HostEntry(
            config.node_id,
            options.advertise or options.bind,
            server.address[1],
            control.sockets[0].getsockname()[1],
            options.application,
            options.slot,
            os.getpid(),
            executor=f"{socket.gethostname()}:{self._parent}",
        )
        try:
            return await self._serve_until_ended(server)
        finally:
            control.close()
            self._leadership.close()
            await server.stop(1.0)
            await self._in_registry_thread(self._registry.remove_host, config.node_id)
            engine.close()
            self._snapshots.close()

    def _new_loop(self, *arguments: Any) -> Runtime:
        runtime = _HostRuntime(*arguments)
        runtime.host = self
        return runtime

    async def _listen(self, config: Config) -> Server:
        """A server on the first port that is free."""
        options = self._options
        error: OSError | None = None
        for port in options.ports or (0,):
            server = Server(
                config,
                self._runtime,
                self._catalogue,
                cluster_id=self._catalogue.cluster_id,
                listen=(options.bind, port),
                peers=self._peers,
            )
            try:
                await server.start()
            except OSError as refused:
                error = refused
                continue
            return server
        assert error is not None
        raise error

    async def _serve_until_ended(self, server: Server) -> str:
        ended = asyncio.ensure_future(server.wait_ended())
        superseded_at: float | None = None
        while not ended.done():
            await self._look()
            view, own = self._peers.view, self._options.application
            if own in view.stopped:
                return "stopped"
            if view.term > own and superseded_at is None:
                logger.warning("application %d was superseded by %d", own, view.term)
                superseded_at = boot_seconds()
                self._leadership.want({})
            if superseded_at is not None and boot_seconds() - superseded_at > _FAREWELL_SECONDS:
                return "superseded"
            if self._leaving:
                return "left"
            if os.getppid() != self._parent:
                raise RuntimeError("the process that started this host is gone")
            await asyncio.wait({ended}, timeout=self._options.poll_seconds)
        await ended
        return "ended"

    def is_fresh(self) -> bool:
        """Whether the registry was read lately."""
        return boot_seconds() - self._read_at < _STALE_SECONDS

    def look_first(self, then: Any) -> None:
        """Read the registry, then call `then`, also after a failure: the log fences all writes."""
        if self._looking is None:
            self._looking = asyncio.get_running_loop().create_task(self._look())

            def looked(task: asyncio.Task[None]) -> None:
                self._looking = None
                self._read_at = boot_seconds()

            self._looking.add_done_callback(looked)
        self._looking.add_done_callback(lambda task: then())

    def _asked(self, ask: Ask) -> Answer:
        """Only a host that knows the registry takes orders: what it reads may be old."""
        if not self.is_fresh() or self._peers.view.term > self._options.application:
            return Answer(dict(self._leadership.led))
        self._leaving = ask.leave
        return self._leadership.want(ask.shards)

    async def _look(self) -> None:
        """Read the registry and act on it. A failure of storage is logged, and the next look is
        due."""
        started, led = boot_seconds(), dict(self._leadership.led)
        try:
            view, newest_topics = await self._in_registry_thread(self._read_registry, led)
        except Exception as error:
            logger.error("the registry cannot be read: %s", error)
            return
        self._read_at = started
        self._peers.show(view)
        self._leadership.check(view)
        if newest_topics > self._topics.version:
            self._catalogue.reload()

    def _read_registry(self, led: Mapping[int, int]) -> tuple[View, int]:
        """Also says again what is missing there of this host. In the registry's thread."""
        view, own = self._registry.read(), self._entry
        if own is not None and view.term == own.application:
            if own.node_id not in view.hosts:
                self._registry.announce_host(own)
            for shard, epoch in led.items():
                entry = view.shards.get(shard)
                if entry is None or entry.epoch < epoch:
                    self._registry.announce_shard(shard, ShardEntry(epoch, own.node_id))
            view = self._registry.read()
        return view, self._topics.newest()

    async def _announce_shard(self, shard: int, epoch: int) -> None:
        assert self._entry is not None
        entry = ShardEntry(epoch, self._entry.node_id)

        def announce() -> View:
            self._registry.announce_shard(shard, entry)
            return self._registry.read()

        self._peers.show(await self._in_registry_thread(announce))

    async def _in_registry_thread(self, call: Any, *arguments: Any) -> Any:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._registry_thread, call, *arguments)
