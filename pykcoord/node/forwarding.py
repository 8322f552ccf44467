"""Requests that a broker of the cluster answers: sent on as they are, over connections that are
used again. A node answers like its cluster, whoever is asked. However many clients ask at once, the
connections to a broker are few: others go to the next one, or wait.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter, deque
from collections.abc import Callable, Container, Sequence

from pykcoord.kafka import ClusterError, Connection, Connector, UnreachableError

__all__ = ["Forwarding"]

# Connections to a broker.
_AT_ONCE = 32
_SECONDS = 60.0
_MOST_BYTES = 64 << 20


class Forwarding:
    """`brokers()` are the addresses of those that may be asked, by id, the nearest first."""

    def __init__(
        self, connector: Connector, brokers: Callable[[], Sequence[tuple[int, str, int]]]
    ) -> None:
        self.forwarded = 0
        self._connector = connector
        self._brokers = brokers
        self._idle: dict[int, list[Connection]] = {}
        self._asked: Counter[int] = Counter()
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def ask(self, frame: bytes) -> bytes:
        """The answer to a frame (header and body), as the client that sent it expects it. Raises
        ClusterError where no broker answers; it may have been carried out."""
        self.forwarded += 1
        last: ClusterError = UnreachableError("the cluster", "no broker is there to be asked")
        failed: set[int] = set()
        while (found := await self._next(failed)) is not None:
            node_id, host, port = found
            self._asked[node_id] += 1
            try:
                try:
                    connection = await self._take(node_id, host, port)
                except ClusterError as error:
                    last = error
                    failed.add(node_id)
                    continue
                answer = await connection.exchange(frame, _SECONDS, _MOST_BYTES)
                self._give_back(node_id, connection)
                return frame[4:8] + answer[4:]
            finally:
                self._asked[node_id] -= 1
                self._wake_one()
        raise last

    def close(self) -> None:
        """Ends all connections that nobody uses."""
        for connections in self._idle.values():
            for connection in connections:
                connection.close()
        self._idle.clear()

    async def _next(self, failed: Container[int]) -> tuple[int, str, int] | None:
        """The nearest broker that is asked little enough, once there is one; None: all have
        failed."""
        while True:
            brokers = [one for one in self._brokers() if one[0] not in failed]
            for one in brokers:
                if self._asked[one[0]] < _AT_ONCE:
                    return one
            if not brokers:
                return None
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if not turn.cancelled():
                    self._wake_one()  # it is the next one's
                raise

    def _wake_one(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return

    async def _take(self, node_id: int, host: str, port: int) -> Connection:
        idle = self._idle.get(node_id, [])
        while idle:
            connection = idle.pop()
            if connection.is_usable:
                return connection
            connection.close()
        return await self._connector.connect(host, port)

    def _give_back(self, node_id: int, connection: Connection) -> None:
        idle = self._idle.setdefault(node_id, [])
        if connection.is_usable:
            idle.append(connection)
        else:
            connection.close()


def shuffled(
    brokers: Sequence[tuple[int, str, int, str | None]], rack: str | None
) -> list[tuple[int, str, int]]:
    """In a random order, those of the own rack first."""
    found = list(brokers)
    random.shuffle(found)
    found.sort(key=lambda one: rack is not None and one[3] != rack)
    return [one[:3] for one in found]
