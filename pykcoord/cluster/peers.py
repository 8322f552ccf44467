"""The nodes of a cluster, as clients hear of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from pykcoord._native import ClusterNode, partition_of
from pykcoord.cluster.asking import Ends
from pykcoord.cluster.ends import EndsOfOthers
from pykcoord.cluster.journals import boot_ms
from pykcoord.server import Broker

__all__ = ["ClusterPeers"]


class ClusterPeers:
    """The nodes, as the node APIs ask; see `pykcoord.server.Peers`."""

    controller_id: int | None = None  # each changes the topics that all share

    def __init__(self, shards: int) -> None:
        self.version = 0
        self.controller: int | None = None
        """The node that decides who leads what, as far as this one knows."""
        self.others: EndsOfOthers | None = None
        self._shards = shards
        self._brokers: dict[int, Broker] = {}
        self._leaders: Sequence[tuple[int, int] | None] = ()

    def show(self, node: ClusterNode) -> None:
        self._brokers = {one[0]: Broker(*one[1:4]) for one in node.members}
        controller = self._brokers.get(node.controller) if node.controller is not None else None
        self.controller = None if controller is None else controller.node_id
        # Who does not hear of the store names nobody: clients would come back to it for ever.
        self._leaders = node.leaders if node.is_healthy(boot_ms()) else ()
        self.version += 1

    def brokers(self) -> list[Broker]:
        return [*self._brokers.values()]

    def ends(self, wanted: Ends) -> asyncio.Future[Ends] | None:
        return self.others.ask(wanted) if self.others is not None else None

    def coordinator(self, group_id: str) -> Broker | None:
        return self.leader(partition_of(group_id, self._shards))

    def leader(self, shard: int) -> Broker | None:
        """The node that is to lead a shard."""
        leader = self._leaders[shard] if shard < len(self._leaders) else None
        return None if leader is None else self._brokers.get(leader[0])
