"""A session with ZooKeeper through kazoo, for one member: operations done one by one.

As in 0.8's client, a request waits for a connection and is sent again on the next one, be that of
a new session. A `careful` session raises ConnectionLostError instead. It must never call its
owner's code on a thread of kazoo's.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from kazoo import exceptions as refusals
from kazoo.client import KazooClient, KazooState
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.retry import KazooRetry

from pykcoord.clock import monotonic_seconds
from pykcoord.errors import CoordinatorClosedError
from pykcoord.zookeeper.errors import NoSessionError, ZooKeeperError
from pykcoord.zookeeper.operations import (
    BadVersionError,
    Children,
    Create,
    Delete,
    Exists,
    Get,
    Node,
    NodeExistsError,
    NoNodeError,
    NotPermittedError,
    Operation,
    Revoke,
    Session,
    Set,
    Steps,
)

_STOP_SECONDS = 10.0
_LOST = (
    refusals.ConnectionLoss,
    refusals.SessionExpiredError,
    refusals.OperationTimeoutError,
    refusals.SessionMovedError,
    refusals.ConnectionClosedError,
)
_REFUSALS: dict[type[Exception], type[NoNodeError] | type[NodeExistsError]] = {
    refusals.NoNodeError: NoNodeError,
    refusals.NodeExistsError: NodeExistsError,
    refusals.BadVersionError: BadVersionError,  # type: ignore[dict-item]
    refusals.NoAuthError: NotPermittedError,  # type: ignore[dict-item]
}

Told = Callable[[str, str], None]


class ConnectionLostError(ZooKeeperError):
    """The connection was lost while a careful session waited for an answer."""


class KazooSession:
    """Sessions with ZooKeeper, one after the other, of one member.

    `told(kind, path)` is called on threads of kazoo's: `watch` with the path whose watch fired,
    `suspended`, `expired` and `connected` with the connect string.
    """

    def __init__(self, hosts: str, session_timeout_ms: int, careful: bool, told: Told) -> None:
        self.hosts = hosts
        self.requests = 0
        """How many requests were sent."""
        self._careful = careful
        self._told = told
        self._connected = threading.Event()
        self._closing = threading.Event()
        endless = KazooRetry(max_tries=-1, delay=0.1, max_delay=1.0)
        try:
            self._client = KazooClient(
                hosts, timeout=session_timeout_ms / 1000, connection_retry=endless
            )
        except (ValueError, OSError) as error:
            raise NoSessionError(hosts, f"is no connect string: {error}") from None
        self._client.add_listener(self._changed)

    @property
    def connected(self) -> bool:
        """Whether there is a connection now."""
        return self._connected.is_set()

    @property
    def session_id(self) -> int:
        """The number of the present session, 0 without one."""
        identity = self._client.client_id
        return identity[0] if identity is not None else 0

    @property
    def session_timeout_seconds(self) -> float:
        """As it was asked for, or agreed."""
        timeout_ms: float = self._client._session_timeout
        return timeout_ms / 1000

    def connect(self, timeout_seconds: float) -> None:
        """Connect. Raises NoSessionError, which names the connect string."""
        started = self._client.start_async()
        started.wait(timeout_seconds)
        if not self._client.connected:
            reason = f"no ZooKeeper server answered within {timeout_seconds:g} s"
            raise NoSessionError(self.hosts, reason)

    def run(self, steps: Steps[Any], revoke: Callable[[], None], until: float | None = None) -> Any:
        """Do what a generator asks for. `until`: by monotonic seconds, else TimeoutError."""
        answer: Any = None
        error: Exception | None = None
        while True:
            try:
                operation = steps.send(answer) if error is None else steps.throw(error)
            except StopIteration as stop:
                return stop.value
            answer, error = None, None
            if isinstance(operation, Revoke):
                revoke()
                continue
            try:
                answer = self._ask(operation, until)
            except (ConnectionLostError, CoordinatorClosedError, TimeoutError):
                steps.close()
                raise
            except ZooKeeperError as refusal:
                error = refusal

    def close(self) -> None:
        """End the session, and with it all its ephemeral znodes."""
        self._closing.set()
        self._client.stop()
        self._client.close()

    def stop_waiting(self) -> None:
        """Requests that wait for a connection end with CoordinatorClosedError."""
        self._closing.set()

    def _ask(self, operation: Operation, until: float | None) -> Any:
        path = getattr(operation, "path", self.hosts)
        if isinstance(operation, Session):
            return self.session_id
        while True:
            self._wait_for_connection(path, until)
            result = self._start(operation)
            try:
                return self._await(operation, result, until)
            except _LOST as error:
                if self._careful:
                    reason = f"the connection to {self.hosts} was lost"
                    raise ConnectionLostError(path, reason) from error
                self._closing.wait(0.05)
            except tuple(_REFUSALS) as error:
                kind = next(k for of, k in _REFUSALS.items() if isinstance(error, of))
                raise kind(path) from None
            except refusals.ZookeeperError as error:
                raise ZooKeeperError(path, repr(error)) from None

    def _wait_for_connection(self, path: str, until: float | None) -> None:
        while not self._connected.wait(0.05):
            if self._closing.is_set():
                raise CoordinatorClosedError(f"{path}: the member was closed")
            if self._careful:
                raise ConnectionLostError(path, f"no connection to {self.hosts}")
            if until is not None and monotonic_seconds() > until:
                raise TimeoutError(f"{path}: no connection to {self.hosts}")

    def _await(self, operation: Operation, result: Any, until: float | None) -> Any:
        while True:
            try:
                return _plain(operation, result.get(timeout=0.5))
            except KazooTimeoutError:
                if self._closing.is_set() and not self._connected.is_set():
                    raise CoordinatorClosedError("the member was closed") from None
                if until is not None and monotonic_seconds() > until:
                    path = getattr(operation, "path", "")
                    raise TimeoutError(f"{path}: no answer of {self.hosts}") from None

    def _start(self, operation: Operation) -> Any:
        self.requests += 1
        match operation:
            case Exists(path, watch):
                return self._client.exists_async(path, self._fired if watch else None)
            case Get(path, watch):
                return self._client.get_async(path, self._fired if watch else None)
            case Children(path, watch):
                return self._client.get_children_async(path, self._fired if watch else None)
            case Create(path, data, ephemeral):
                return self._client.create_async(path, data, ephemeral=ephemeral)
            case Delete(path, version):
                return self._client.delete_async(path, version)
            case Set(path, new, version):
                return self._client.set_async(path, new, version)
        raise AssertionError(operation)

    def _fired(self, event: Any) -> None:
        if event.type != "NONE":
            self._told("watch", event.path)

    def _changed(self, state: str) -> None:
        if state == KazooState.CONNECTED:
            self._connected.set()
            self._told("connected", self.hosts)
        else:
            self._connected.clear()
            self._told("expired" if state == KazooState.LOST else "suspended", self.hosts)


def _plain(operation: Operation, answer: Any) -> Any:
    match operation:
        case Get():
            data, stat = answer
            return _node(data, stat)
        case Exists():
            return None if answer is None else _node(None, answer)
        case Set():
            return answer.version
    return answer


def _node(data: bytes | None, stat: Any) -> Node:
    return Node(data, stat.version, stat.mzxid, stat.mtime, stat.ephemeralOwner)
