"""Where partitions end: a node knows what groups of its own shards have committed, and asks the
others. What a node does not say in time is not counted: an end can look lower for that long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from pykcoord._native import ClusterNode
from pykcoord.cluster.asking import AskClient, Ends, MalformedError
from pykcoord.cluster.secret import SecretError
from pykcoord.runtime import Runtime

__all__ = ["EndsOfOthers", "ends_here"]

_SECONDS = 0.5


def ends_here(runtime: Runtime, wanted: Ends) -> Ends:
    """What groups that are led here have committed at the most."""
    return {topic: list(runtime.furthest_offsets(topic, some)) for topic, some in wanted.items()}


class EndsOfOthers:
    """Asks the nodes that `node` knows, but itself."""

    def __init__(self, node: ClusterNode, secret: str | None) -> None:
        self._node = node
        self._secret = secret
        self._clients: dict[int, tuple[AskClient, asyncio.Lock]] = {}

    def ask(self, wanted: Ends) -> asyncio.Future[Ends] | None:
        """The highest that any of them says, on the loop; None if there is no other."""
        others = [one for one in self._node.members if one[0] != self._node.incarnation]
        for gone in self._clients.keys() - {one[0] for one in others}:
            self._clients.pop(gone)[0].close()
        if not others:
            return None
        return asyncio.ensure_future(self._highest(others, wanted))

    def close(self) -> None:
        """Ask nobody any more."""
        for client, _ in self._clients.values():
            client.close()

    async def _highest(self, others: Sequence[tuple[Any, ...]], wanted: Ends) -> Ends:
        found: dict[str, list[int]] = {topic: [0] * len(some) for topic, some in wanted.items()}
        for said in await asyncio.gather(*(self._said(one, wanted) for one in others)):
            for topic, ends in said.items():
                if topic in found:
                    found[topic] = list(map(max, found[topic], ends))
        return found

    async def _said(self, other: tuple[Any, ...], wanted: Ends) -> Ends:
        if other[0] not in self._clients:
            self._clients[other[0]] = (AskClient(other[4], other[5], self._secret), asyncio.Lock())
        client, lock = self._clients[other[0]]
        try:
            async with asyncio.timeout(_SECONDS), lock:
                return await client.ends(wanted, _SECONDS)
        except (OSError, SecretError, MalformedError):
            return {}
