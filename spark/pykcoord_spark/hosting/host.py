"""One host: a node of a cluster, as `pykcoord serve --cluster` is one, in a task of Spark."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import json
import logging
import os
import secrets
import socket
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from pykcoord.cluster import AddressError, MemberOptions, serve_member
from pykcoord.config import Config
from pykcoord.log.shared import open_store
from pykcoord_spark.hosting.registry import HostEntry, Registry

__all__ = ["HostOptions", "run_host"]

logger = logging.getLogger("pykcoord_spark.hosting")

_NODE_IDS = 2**31 - 1
# Ways to end after which no host of this application is to go on.
_STOPPED, _ORPHANED = "stopped", "orphaned"


@dataclass(frozen=True, slots=True)
class HostOptions:
    """The options of a host at its start; `to_json` and `of_json` carry them to another machine.

    `log` is a folder or URL, of a cluster of `shards` shards. `bind` is the address to listen on,
    `ports` where one that is free is looked for (any if empty). `config` are Kafka's settings by
    Kafka's names. `application` is the term of the application, `slot` the host's number in it,
    from 0. `poll_seconds`: how often it is looked whether the host is to end. `has_secret`: whether
    hosts prove to each other that they know that of the registry.
    """

    log: str
    shards: int
    application: int
    slot: int
    bind: str = "127.0.0.1"
    ports: Sequence[int] = ()
    config: Mapping[str, Any] = field(default_factory=dict)
    poll_seconds: float = 0.2
    has_secret: bool = False

    def to_json(self) -> str:
        """As text."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        return json.dumps({**fields, "config": dict(self.config), "ports": list(self.ports)})

    @staticmethod
    def of_json(text: str) -> HostOptions:
        """Of text."""
        return HostOptions(**json.loads(text))


def run_host(options: HostOptions) -> str:
    """Serve until the application is stopped or superseded, or the driver sends this host away;
    returns which: "stopped", "superseded", "left". Raises what is wrong with the log or the
    address, and RuntimeError when the parent process is gone."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(_Host(options).run())
    return uvloop.run(_Host(options).run())


class _Host:
    def __init__(self, options: HostOptions) -> None:
        self._options = options
        self._registry = Registry(open_store(options.log))
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="pykcoord-registry")
        self._node_id = 1 + secrets.randbelow(_NODE_IDS)
        self._parent = os.getppid()
        self._entry: HostEntry | None = None

    async def run(self) -> str:
        """See `run_host`."""
        options = self._options
        config, _ = Config.of(options.config)
        config = dataclasses.replace(
            config, node_id=self._node_id, offsets_topic_num_partitions=options.shards
        )
        secret = await self._in_thread(self._registry.secret) if options.has_secret else None
        asked: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        watching = asyncio.create_task(self._watch(asked))
        try:
            await self._serve(config, secret, asked)
        finally:
            watching.cancel()
        outcome = asked.result() if asked.done() else "ended"
        if outcome not in (_STOPPED, _ORPHANED):
            # The others hear of the end of this one by the cluster log.
            await self._in_thread(self._registry.remove_host, self._node_id)
        if outcome == _ORPHANED:
            raise RuntimeError("the process that started this host is gone")
        return outcome

    async def _serve(self, config: Config, secret: str | None, asked: asyncio.Future[str]) -> None:
        """On the first port that is free."""
        options = self._options
        ports = [*options.ports] or [0]
        for port in ports:
            member = MemberOptions(
                options.log, (options.bind, port), (options.bind, 0), secret=secret
            )
            try:
                await serve_member(config, member, asked, self._ready, at_once=(_STOPPED,))
            except AddressError as error:
                if error.errno != errno.EADDRINUSE or port == ports[-1]:
                    raise
                continue
            return

    def _ready(self, address: tuple[str, int], shards: int) -> None:
        self._entry = HostEntry(
            self._node_id,
            self._options.bind,
            address[1],
            self._options.application,
            self._options.slot,
            os.getpid(),
            executor=f"{socket.gethostname()}:{self._parent}",
        )

    async def _watch(self, asked: asyncio.Future[str]) -> None:
        """Until this host is to end: says why."""
        is_announced = False
        while not asked.done():
            if os.getppid() != self._parent:
                asked.set_result(_ORPHANED)
                return
            try:
                if self._entry is not None and not is_announced:
                    await self._in_thread(self._registry.announce_host, self._entry)
                    is_announced = True
                reason = await self._in_thread(self._reason_to_end)
            except Exception as error:  # the node says that the store fails, and when it answers
                logger.debug("the registry cannot be read: %s", error)
                reason = None
            if reason is not None:
                asked.set_result(reason)
                return
            await asyncio.sleep(self._options.poll_seconds)

    def _reason_to_end(self) -> str | None:
        """In the registry's thread. A host of an application that was superseded goes when there is
        one of the later to go on."""
        own, orders = self._options.application, self._registry.orders()
        if orders.term > own:
            hosts = self._registry.hosts().values()
            if any(host.application > own for host in hosts):
                return "superseded"
        if own in orders.stopped:
            return _STOPPED
        return "left" if self._node_id in orders.leaving else None

    async def _in_thread(self, call: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call, *arguments)
