"""A cluster that is read: its brokers, one connection to each for control, and its metadata.

Kept up to date by a task: every `metadata.max.age.ms`, and at once when somebody says that what is
known does not hold (`doubt`). Which broker is asked goes round, so that no broker that lags is
believed for long.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Self

from kio.schema.metadata.v12.request import MetadataRequest, MetadataRequestTopic
from kio.schema.types import TopicName

from pykcoord.clock import monotonic_seconds
from pykcoord.kafka.client_properties import ClientProperties
from pykcoord.kafka.connection import Connection, Connector
from pykcoord.kafka.errors import (
    AuthenticationError,
    ClusterError,
    OldClusterError,
    OtherClusterError,
    UnreachableError,
)
from pykcoord.kafka.view import ClusterView

__all__ = ["Cluster", "metadata_of", "servers_of"]

logger = logging.getLogger("pykcoord.kafka")

# Between two refreshes that somebody asked for: the first comes at once.
_LEAST_SECONDS, _MOST_SECONDS = 0.1, 2.0


def servers_of(text: str) -> list[tuple[str, int]]:
    """`HOST:PORT,HOST:PORT` as pairs. Raises ValueError, which says what does not fit."""
    found = []
    for one in text.split(","):
        host, _, port = one.strip().rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65_536:
            raise ValueError(f"{one.strip()!r} is not HOST:PORT")
        found.append((host, int(port)))
    return found


class Cluster:
    """Made by `open`, ended by `close`. `view` is what is known; `on_change` are called after each
    change of it, on the loop."""

    def __init__(
        self,
        properties: ClientProperties,
        expected_id: str | None = None,
        topics: Sequence[str] | None = None,
    ) -> None:
        self.properties = properties
        self.view = ClusterView()
        self.on_change: list[Callable[[], None]] = []
        self.connector = Connector(properties)
        self._servers = servers_of(properties.bootstrap_servers)
        self._expected_id = expected_id
        self._metadata = metadata_of(topics)
        self._control: dict[int, Connection] = {}
        self._opening: dict[int, asyncio.Lock] = {}
        self._next = 0
        self._doubted = asyncio.Event()
        self._refreshed = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None
        self._failure: ClusterError | None = None

    @classmethod
    async def open(
        cls,
        properties: ClientProperties,
        expected_id: str | None = None,
        topics: Sequence[str] | None = None,
    ) -> Self:
        """Connects to the first bootstrap server that answers. `expected_id`: the cluster that it
        must be. `topics`: those that the view has, all that are listed where None. Raises
        ValueError for addresses that are none, UnreachableError where none answers,
        AuthenticationError, OldClusterError, NonsenseError, OtherClusterError, ConfigError."""
        cluster = cls(properties, expected_id, topics)
        try:
            await cluster._ask_anybody()
        except BaseException:
            await cluster.close()
            raise
        cluster._task = asyncio.create_task(cluster._keep_up_to_date())
        return cluster

    @property
    def failure(self) -> ClusterError | None:
        """Why it cannot be read any more: another cluster answers, or a fault; else None."""
        return self._failure

    @property
    def age_seconds(self) -> float:
        """Since the last answer to Metadata."""
        return monotonic_seconds() - self.view.as_of

    def doubt(self) -> None:
        """What is known does not hold: ask soon."""
        self._doubted.set()

    async def refreshed(self) -> None:
        """Waits for the next answer to Metadata."""
        before = self.view.as_of
        self.doubt()
        async with self._refreshed:
            await self._refreshed.wait_for(
                lambda: self.view.as_of != before or self._failure is not None
            )

    async def ask(self, node_id: int, request: Any, seconds: float | None = None) -> Any:
        """The answer of a broker, over its connection for control. Raises as `Connection.ask` and
        `Connector.connect`."""
        return await (await self.control(node_id)).ask(request, seconds=seconds)

    async def control(self, node_id: int) -> Connection:
        """The connection for control to a broker, which is made if it is not there."""
        async with self._opening.setdefault(node_id, asyncio.Lock()):
            connection = self._control.get(node_id)
            if connection is None or not connection.is_usable:
                if connection is not None:
                    connection.close()
                connection = self._control[node_id] = await self.connect(node_id)
            return connection

    async def connect(self, node_id: int) -> Connection:
        """A further connection to a broker, which is the caller's."""
        broker = self.view.brokers.get(node_id)
        if broker is None:
            raise UnreachableError(f"node {node_id}", "the cluster does not know it")
        return await self.connector.connect(broker.host, broker.port)

    async def close(self) -> None:
        """Ends all connections."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for connection in self._control.values():
            connection.close()

    async def _keep_up_to_date(self) -> None:
        try:
            await self._refresh()
        except Exception as error:  # nobody waits for this task: those who look at `failure` hear
            logger.error("metadata", exc_info=error, extra={"event": "failure"})
            reason = f"its metadata is not kept up to date any more ({error!r:.200})"
            self._failure = ClusterError(self.properties.bootstrap_servers, reason)
            async with self._refreshed:
                self._refreshed.notify_all()
            self._tell()

    async def _refresh(self) -> None:
        pause = _LEAST_SECONDS
        while self._failure is None:
            try:
                async with asyncio.timeout(self.properties.metadata_max_age_ms / 1000):
                    await self._doubted.wait()
            except TimeoutError:
                pause = _LEAST_SECONDS
            self._doubted.clear()
            try:
                changed = await self._ask_anybody()
                pause = _LEAST_SECONDS if changed else min(pause * 2, _MOST_SECONDS)
            except OtherClusterError as error:
                self._failure = error
                self._tell()
            except ClusterError as error:
                logger.warning("metadata: %s", error, extra={"event": "metadata"})
                self._doubted.set()
                pause = min(pause * 2, _MOST_SECONDS)
            async with self._refreshed:
                self._refreshed.notify_all()
            await asyncio.sleep(pause)

    async def _ask_anybody(self) -> bool:
        """One broker after the other, the known ones first; says whether anything changed."""
        known = sorted(self.view.brokers)
        self._next += 1
        failures: list[ClusterError] = []
        for step in range(len(known)):
            node_id = known[(self._next + step) % len(known)]
            try:
                return self._take(await self.ask(node_id, self._metadata), node_id)
            except OtherClusterError:
                raise
            except ClusterError as error:
                failures.append(error)
        for host, port in self._servers:
            connection = None
            try:
                connection = await self.connector.connect(host, port)
                return self._take(await connection.ask(self._metadata), -1)
            except OtherClusterError:
                raise
            except ClusterError as error:
                failures.append(error)
            finally:
                if connection is not None:
                    connection.close()
        raise _worst(failures)

    def _take(self, answer: Any, node_id: int) -> bool:
        found = answer.cluster_id or ""
        expected = self._expected_id or self.view.cluster_id
        if expected and found != expected:
            where = self.properties.bootstrap_servers
            if node_id in self.view.brokers:
                where = self.view.brokers[node_id].address
            raise OtherClusterError(
                where,
                f"the cluster there has the id {found}, not {expected}; nothing of it was read: "
                "give the address of the right one, or another directory",
            )
        changed = self.view.take(answer, node_id, monotonic_seconds())
        if changed:
            self._drop_gone()
            self._tell()
        return changed

    def _drop_gone(self) -> None:
        """A broker that moved is connected to anew."""
        for node_id, connection in list(self._control.items()):
            broker = self.view.brokers.get(node_id)
            if broker is None or broker.address != connection.address:
                connection.close()
                del self._control[node_id]

    def _tell(self) -> None:
        for callback in self.on_change:
            callback()


def _worst(failures: list[ClusterError]) -> ClusterError:
    """Of several servers that failed: what the operator has to mend comes first."""
    for kind in (AuthenticationError, OldClusterError, ClusterError):
        for error in failures:
            if isinstance(error, kind) and not isinstance(error, UnreachableError):
                return error
    if len(failures) == 1:
        return failures[0]
    addresses = ",".join(dict.fromkeys(error.address for error in failures))
    return UnreachableError(addresses, f"none answers ({failures[0].reason})")


def metadata_of(topics: Sequence[str] | None) -> MetadataRequest:
    """The request for these topics, or for all that are listed, which creates none."""
    named = [MetadataRequestTopic(topic_id=None, name=TopicName(name)) for name in topics or ()]
    return MetadataRequest(
        topics=None if topics is None else tuple(named),
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )
