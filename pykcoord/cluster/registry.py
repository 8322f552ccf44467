"""Who is there and who leads what: small objects beside the shard log, read by every host.

    <log>/registry/applications/000000000003     the third application that used the log
    <log>/registry/stops/000000000003            it is to end
    <log>/registry/hosts/0123456789              a host, by its node id, and where it listens
    <log>/registry/shards/00012-0000000007       who led shard 12 in epoch 7

Like all else in the log, an object is made once and never changed: the highest number counts, so
that a host which slept cannot replace what came after it. Nothing here decides who leads: the
shard log does. What is read here may be old, and may never be more than a hint.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from pykcoord.log.shared import Store
from pykcoord.server import Broker

__all__ = ["HostEntry", "Registry", "ShardEntry", "View"]

_APPLICATIONS = "registry/applications"
_STOPS = "registry/stops"
_HOSTS = "registry/hosts"
_SHARDS = "registry/shards"


@dataclass(frozen=True, slots=True)
class HostEntry:
    """One host process, `node_id` in the cluster: clients reach it at `host` and `port`, its
    controller at `control_port`. `pid` is that of the process.

    `application` is the term of the application that it belongs to, `slot` its number there.
    `executor` names what it would die with: hosts of the same name end together.
    """

    node_id: int
    host: str
    port: int
    control_port: int
    application: int
    slot: int
    pid: int
    executor: str = ""

    @property
    def broker(self) -> Broker:
        """As clients hear of it."""
        return Broker(self.node_id, self.host, self.port)


@dataclass(frozen=True, slots=True)
class ShardEntry:
    """Who claimed a shard, under which epoch of its log."""

    epoch: int
    node_id: int


@dataclass(frozen=True, slots=True)
class View:
    """The registry as it was read. `term` is that of the latest application, 0 for none."""

    term: int = 0
    stopped: frozenset[int] = frozenset()
    hosts: Mapping[int, HostEntry] = field(default_factory=dict)
    shards: Mapping[int, ShardEntry] = field(default_factory=dict)

    def leader(self, shard: int) -> Broker | None:
        """Who leads a shard, if it is still there."""
        entry = self.shards.get(shard)
        host = self.hosts.get(entry.node_id) if entry is not None else None
        return host.broker if host is not None else None


class Registry:
    """The registry in a store. Not thread-safe; every call may block on the store.

    All raise what the store raises.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._contents: dict[str, dict[str, Any]] = {}

    def begin_application(self, name: str) -> int:
        """The term of a new application, which supersedes all before it. `name` is for people."""
        while True:
            term = 1 + max(map(int, self._store.names(_APPLICATIONS)), default=0)
            if self._create(f"{_APPLICATIONS}/{term:012}", {"name": name}):
                return term

    def stop_application(self, term: int) -> None:
        """Have its hosts end."""
        self._create(f"{_STOPS}/{term:012}", {})

    def announce_host(self, entry: HostEntry) -> None:
        """Say that a host is there; nothing changes if it was said before."""
        self._create(_host_name(entry.node_id), asdict(entry))

    def remove_host(self, node_id: int) -> None:
        """Say that a host is gone."""
        self._store.delete(_host_name(node_id))

    def announce_shard(self, shard: int, entry: ShardEntry) -> None:
        """Say who leads a shard, and forget who did before."""
        self._create(f"{_SHARDS}/{shard:05}-{entry.epoch:010}", {"node_id": entry.node_id})
        for name in self._store.names(_SHARDS):
            at, epoch = map(int, name.split("-"))
            if at == shard and epoch < entry.epoch:
                self._store.delete(f"{_SHARDS}/{name}")

    def read(self) -> View:
        """What it says now. What goes while it is read is left out."""
        terms = [int(name) for name in self._store.names(_APPLICATIONS)]
        stopped = frozenset(int(name) for name in self._store.names(_STOPS))
        names = [f"{_HOSTS}/{name}" for name in self._store.names(_HOSTS)]
        newest: dict[int, tuple[int, str]] = {}
        for name in self._store.names(_SHARDS):
            shard, epoch = map(int, name.split("-"))
            newest[shard] = max(newest.get(shard, (-1, "")), (epoch, f"{_SHARDS}/{name}"))
        wanted = {*names, *(name for _, name in newest.values())}
        self._contents = {name: self._contents[name] for name in wanted & self._contents.keys()}
        hosts = {entry.node_id: entry for name in names if (entry := self._host(name))}
        shards = {}
        for shard, (epoch, name) in newest.items():
            content = self._content(name)
            if content is not None:
                shards[shard] = ShardEntry(epoch, content["node_id"])
        return View(max(terms, default=0), stopped, hosts, shards)

    def _host(self, name: str) -> HostEntry | None:
        content = self._content(name)
        return HostEntry(**content) if content is not None else None

    def _content(self, name: str) -> dict[str, Any] | None:
        """Read once: no object changes."""
        if name not in self._contents:
            text = self._store.read(name)
            if text is None:
                return None
            self._contents[name] = json.loads(text)
        return self._contents[name]

    def _create(self, name: str, content: dict[str, Any]) -> bool:
        return self._store.create(name, json.dumps(content).encode())


def _host_name(node_id: int) -> str:
    return f"{_HOSTS}/{node_id:010}"
