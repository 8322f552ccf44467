"""Requests that a broker of the cluster answers: sent on as they are, over connections that are
used again. A node answers like its cluster, whoever is asked.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from pykcoord.kafka import ClusterError, Connection, Connector, UnreachableError

__all__ = ["Forwarding"]

_IDLE = 8
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

    async def ask(self, frame: bytes) -> bytes:
        """The answer to a frame (header and body), as the client that sent it expects it. Raises
        ClusterError where no broker answers; it may have been carried out."""
        self.forwarded += 1
        last: ClusterError = UnreachableError("the cluster", "no broker is there to be asked")
        for node_id, host, port in self._brokers():
            try:
                connection = await self._take(node_id, host, port)
            except ClusterError as error:
                last = error
                continue
            answer = await connection.exchange(frame, _SECONDS, _MOST_BYTES)
            self._give_back(node_id, connection)
            return frame[4:8] + answer[4:]
        raise last

    def close(self) -> None:
        """Ends all connections that nobody uses."""
        for connections in self._idle.values():
            for connection in connections:
                connection.close()
        self._idle.clear()

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
        if len(idle) < _IDLE and connection.is_usable:
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
