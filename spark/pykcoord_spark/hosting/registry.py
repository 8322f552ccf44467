"""What the driver and its hosts tell each other by the log's place: small objects beside the log.

    <log>/registry/orders/application-000000000003   the third application that used the log
    <log>/registry/orders/stop-000000000003          it is to end
    <log>/registry/orders/leave-0123456789           this host is to end
    <log>/registry/hosts/0123456789                  a host, by its node id
    <log>/registry/secret                            what hosts prove to each other

An object is made once and never changed. Nothing here says who leads what: the cluster log does.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import NamedTuple

from pykcoord.log.shared import Store

__all__ = ["HostEntry", "Orders", "Registry"]

_ORDERS = "registry/orders"
_HOSTS = "registry/hosts"
_SECRET = "registry/secret"
_APPLICATION, _STOP, _LEAVE = "application", "stop", "leave"


@dataclass(frozen=True, slots=True)
class HostEntry:
    """One host process, `node_id` in the cluster: clients reach it at `host` and `port`. `pid` is
    that of the process.

    `application` is the term of the application that it belongs to, `slot` its number there, from
    0. `executor` names what it would die with: hosts of the same name end together.
    """

    node_id: int
    host: str
    port: int
    application: int
    slot: int
    pid: int
    executor: str = ""


class Orders(NamedTuple):
    """`term` is that of the latest application, 0 for none; `stopped` the terms of those that are
    to end, `leaving` the node ids of hosts that are to."""

    term: int = 0
    stopped: frozenset[int] = frozenset()
    leaving: frozenset[int] = frozenset()


class Registry:
    """The registry in a store. Not thread-safe; every call may block on the store.

    All raise what the store raises.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, HostEntry] = {}

    def begin_application(self, name: str) -> int:
        """The term of a new application, which supersedes all before it. `name` is for people."""
        while True:
            term = self.orders().term + 1
            if self._order(_APPLICATION, term, {"name": name}):
                return term

    def stop_application(self, term: int) -> None:
        """Have its hosts end."""
        self._order(_STOP, term, {})

    def send_away(self, node_id: int) -> None:
        """Have this host end."""
        self._order(_LEAVE, node_id, {})

    def orders(self) -> Orders:
        """What was said by now."""
        found: dict[str, set[int]] = {_APPLICATION: set(), _STOP: set(), _LEAVE: set()}
        for name in self._store.names(_ORDERS):
            kind, _, number = name.partition("-")
            found.setdefault(kind, set()).add(int(number))
        return Orders(
            max(found[_APPLICATION], default=0), frozenset(found[_STOP]), frozenset(found[_LEAVE])
        )

    def announce_host(self, entry: HostEntry) -> None:
        """Say that a host is there; nothing changes if it was said before."""
        self._store.create(_host_name(entry.node_id), json.dumps(asdict(entry)).encode())

    def remove_host(self, node_id: int) -> None:
        """Forget a host."""
        self._store.delete(_host_name(node_id))
        self._store.delete(_order_name(_LEAVE, node_id))

    def hosts(self) -> Mapping[int, HostEntry]:
        """All that were announced, by node id. Some may have died."""
        names = self._store.names(_HOSTS)
        for gone in self._known.keys() - set(names):
            del self._known[gone]
        for name in names:
            if name not in self._known:
                content = self._store.read(f"{_HOSTS}/{name}")
                if content is not None:
                    self._known[name] = HostEntry(**json.loads(content))
        return {entry.node_id: entry for entry in self._known.values()}

    def secret(self) -> str:
        """What the hosts on this log have in common: made once, for all who read the store."""
        while (content := self._store.read(_SECRET)) is None:
            self._store.create(_SECRET, secrets.token_urlsafe(24).encode())
        return content.decode()

    def _order(self, kind: str, number: int, content: Mapping[str, str]) -> bool:
        return self._store.create(_order_name(kind, number), json.dumps(content).encode())


def _order_name(kind: str, number: int) -> str:
    return f"{_ORDERS}/{kind}-{number:012}"


def _host_name(node_id: int) -> str:
    return f"{_HOSTS}/{node_id:010}"
