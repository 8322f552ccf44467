"""The server: one listening socket, its connections, the node APIs, and how all of it ends.

Everything runs on the loop that `start` was awaited on. It owns no log and no files.
"""

from __future__ import annotations

import asyncio
import functools
import ipaddress
import logging
import socket
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from pykcoord.catalogue import Catalogue
from pykcoord.clock import monotonic_seconds
from pykcoord.errors import KcoordError
from pykcoord.runtime import Runtime
from pykcoord.server._connection import Connection, Hub
from pykcoord.server.accepting import Listener
from pykcoord.server.api.events_topic import EventFiles, EventsTopic
from pykcoord.server.api.node_api import Cluster, Peers
from pykcoord.server.api.registry import LONGEST_FRAMES
from pykcoord.server.dispatch import Dispatcher
from pykcoord.session import Session, anonymous, describe

if TYPE_CHECKING:
    from pykcoord.server.metrics import ServerMetrics

logger = logging.getLogger("pykcoord.server")

# The name of the one listener that there is; Kafka's for one without encryption.
_LISTENER = "PLAINTEXT"
# Whose form is remembered: parsing an address is most of what accepting its connection costs.
_KNOWN_ADDRESSES = 4_096
_GRACE_SECONDS = 5.0
# How often connections are looked at: idle ones are closed at most a quarter too late.
_SWEEP_SECONDS = (0.02, 30.0)
_CLOSING_POLL_SECONDS = 0.005
_NO_BOUND = 2**63 - 1


class ServerConfig(Protocol):
    """The settings that the server reads; `pykcoord.config.Config` has them."""

    @property
    def node_id(self) -> int: ...
    @property
    def connections_max_idle_ms(self) -> int: ...
    @property
    def max_connections(self) -> int: ...
    @property
    def max_connections_per_ip(self) -> int: ...
    @property
    def socket_request_max_bytes(self) -> int: ...
    @property
    def socket_receive_buffer_bytes(self) -> int: ...
    @property
    def queued_max_request_bytes(self) -> int: ...
    @property
    def has_consumer_groups(self) -> bool: ...


class Foreign(Protocol):
    """Answers requests that the core does not own; see `Dispatcher`."""

    def handle(self, connection: Connection, ticket: int, frame: bytes) -> None: ...
    def abandon(self, ticket: int) -> None: ...
    def finish_polls(self) -> None: ...


NewForeign = Callable[
    [Callable[[int, bytes | bytearray], None], Callable[[int, str], None]], Foreign
]


class Server:
    """Serves Kafka clients on `listen` (host, port; port 0 takes a free one).

    `runtime` is loaded and knows the topics of `catalogue`, but is not started. `advertise` is the
    address that answers give to clients, by default where the server listens. `auto_create_topics`:
    whether asking for an unknown topic makes it, with one partition; off unless wanted, since a
    topic here holds no records and a misspelt one would only hide the mistake. `broker_configs` are
    shown by DescribeConfigs. `event_files`: what happened to groups, as an internal topic; None:
    that is not kept. `peers` are the nodes of a cluster, this one among them; None: it is
    alone. `new_foreign` makes what answers all requests that are not of groups, in the place of the
    node-level APIs here.
    """

    def __init__(
        self,
        config: ServerConfig,
        runtime: Runtime,
        catalogue: Catalogue,
        *,
        cluster_id: str,
        listen: tuple[str, int] = ("127.0.0.1", 9092),
        advertise: tuple[str, int] | None = None,
        metrics: ServerMetrics | None = None,
        broker_configs: Mapping[str, str] | None = None,
        auto_create_topics: bool = False,
        max_connections_by_ip: Mapping[str, int] | None = None,
        peers: Peers | None = None,
        event_files: EventFiles | None = None,
        new_foreign: NewForeign | None = None,
    ) -> None:
        self._config = config
        self._runtime = runtime
        self._listen = listen
        self._advertise = advertise
        self._metrics = metrics
        self._cluster = Cluster(
            catalogue=catalogue,
            cluster_id=cluster_id,
            node_id=config.node_id,
            broker_configs=broker_configs or {},
            auto_create_topics=auto_create_topics,
            peers=peers,
            furthest=runtime.furthest_offsets,
            has_consumer_groups=config.has_consumer_groups,
            transactional_version=lambda: runtime.transactional_version,
            events=EventsTopic(event_files) if event_files is not None else None,
        )
        queued = config.queued_max_request_bytes
        queued = queued if queued > 0 else _NO_BOUND
        self.hub = Hub(
            self,
            monotonic_seconds,
            max_frame_bytes=config.socket_request_max_bytes,
            max_connections=config.max_connections,
            max_connections_per_ip=config.max_connections_per_ip,
            max_connections_by_ip=dict(max_connections_by_ip or {}),
            longest_frames=LONGEST_FRAMES,
            max_half_bytes=queued,
            max_ahead_bytes=queued // 2,
        )
        self._dispatcher: Foreign
        if new_foreign is None:
            hub = self.hub
            self._dispatcher = Dispatcher(
                self._cluster,
                hub.answer,
                hub.refuse,
                lambda: hub.unsent_bytes,
                hub.freeing.take,
                runtime.turn,
            )
        else:
            self._dispatcher = new_foreign(self.hub.answer, self.hub.refuse)
        self._listener: Listener | None = None
        self._address: tuple[str, int] | None = None
        self._sweep: asyncio.TimerHandle | None = None
        self._ended: asyncio.Future[None] | None = None

    @property
    def address(self) -> tuple[str, int]:
        """Host and port on which the server listens."""
        assert self._address is not None, "the server was not started"
        return self._address

    async def start(self) -> None:
        """Begin to serve. Raises OSError where the address cannot be had."""
        loop = asyncio.get_running_loop()
        self._ended = loop.create_future()
        host, port = self._listen
        # One socket, as Kafka: a name of several addresses would get a port for each.
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        family, _, _, _, address = found[0]
        self._listener = Listener(
            address,
            family,
            lambda: Connection(self.hub, peer_of),
            self._config.socket_receive_buffer_bytes,
        )
        self._address = self._listener.address
        self._cluster.host, self._cluster.port = self._advertise or (host, self.address[1])
        self._runtime.on_fatal = self._fatal
        self._runtime.start(self.hub)
        if self._metrics is not None:
            self._metrics.watch(self.hub, self._runtime)
        self._close_idle()
        await self._listener.start()

    async def wait_ended(self) -> None:
        """Return once the server was stopped; raise if it ended by a failure of its own."""
        assert self._ended is not None, "the server was not started"
        await asyncio.shield(self._ended)

    async def stop(self, grace_seconds: float = _GRACE_SECONDS) -> None:
        """End: no further connections or requests; what is being written is made durable and
        answered, what is parked hears NOT_COORDINATOR, then all connections are closed.
        After `grace_seconds` all are closed, also where answers are missing."""
        if self._listener is None:
            return
        self._listener.close()
        if self._sweep is not None:
            self._sweep.cancel()
        self.hub.drain()
        self._dispatcher.finish_polls()
        try:
            async with asyncio.timeout(grace_seconds):
                await self._runtime.stop()
                self.hub.close_all()
                while self.hub.connections:
                    await asyncio.sleep(_CLOSING_POLL_SECONDS)
        except TimeoutError:
            logger.warning(
                "%d connections were cut off after %g s",
                len(self.hub.connections),
                grace_seconds,
                extra={"event": "stop", "connections": len(self.hub.connections)},
            )
            self._runtime.halt()
            self.hub.abort_all()
        self._listener.end()
        assert self._ended is not None
        if not self._ended.done():
            self._ended.set_result(None)

    # What the hub asks of its handler.

    def wake(self) -> None:
        """Frames wait."""
        self._runtime.wake()

    def foreign(self, connection: Connection, ticket: int, frame: bytes) -> None:
        """A request of an API that the core does not own."""
        self._dispatcher.handle(connection, ticket, frame)

    def abandoned(self, ticket: int) -> None:
        """A client went away while its request was in flight."""
        self._dispatcher.abandon(ticket)
        self._runtime.abandon(ticket)

    def connected(self, session: Session) -> None:
        """One line for each client that connects, for who looks closely."""
        if logger.isEnabledFor(logging.DEBUG):
            logger.debug(
                "%s: connected to listener %s as %s",
                session.client_host,
                session.listener,
                session.principal,
                extra={"event": "connected", **_fields(session)},
            )

    def refused(self, session: Session, reason: str) -> None:
        """One line for each frame or connection that is refused."""
        logger.warning(
            "%s: refused, connection closed: %s",
            describe(session),
            reason,
            extra={"event": "refused", **_fields(session), "reason": reason},
        )

    def _close_idle(self) -> None:
        max_idle_ms = self._config.connections_max_idle_ms
        if max_idle_ms < 0:
            return
        shortest, longest = _SWEEP_SECONDS
        seconds = min(max(max_idle_ms / 4000, shortest), longest)
        closed = self.hub.close_idle(monotonic_seconds(), max_idle_ms / 1000)
        if closed:
            logger.info(
                "%d idle connections closed", closed, extra={"event": "idle", "closed": closed}
            )
        self._sweep = asyncio.get_running_loop().call_later(seconds, self._close_idle)

    def _fatal(self, error: BaseException) -> None:
        if self._listener is not None:
            self._listener.close()
        self.hub.drain()
        self.hub.close_all()
        if self._ended is not None and not self._ended.done():
            expected = isinstance(error, KcoordError)
            failure = error if expected else RuntimeError(f"the coordinator failed: {error!r}")
            self._ended.set_exception(failure)


def _fields(session: Session) -> dict[str, str]:
    """A session in a line of log as JSON."""
    return {
        "client_host": session.client_host,
        "listener": session.listener,
        "principal": session.principal,
        "software": f"{session.client_software_name} {session.client_software_version}",
    }


def peer_of(peername: Any) -> tuple[str, Session]:
    """(ip, session) of a socket's peer, of whom nothing but its address is known yet."""
    ip, host = client_address(peername)
    return ip, anonymous(host, _LISTENER)


def client_address(peername: Any) -> tuple[str, str]:
    """(ip, host as Kafka's InetAddress.toString writes it) of a socket's peer name."""
    if not peername:
        return "", "/"
    return _client_address(str(peername[0]).partition("%")[0])


@functools.lru_cache(maxsize=_KNOWN_ADDRESSES)
def _client_address(ip: str) -> tuple[str, str]:
    try:
        address = ipaddress.ip_address(ip)
    except ValueError:
        return ip, f"/{ip}"
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            ip = str(address.ipv4_mapped)
        else:  # Java neither shortens groups nor leaves any out
            ip = ":".join(f"{int(group, 16):x}" for group in address.exploded.split(":"))
    return ip, f"/{ip}"
