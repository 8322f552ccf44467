"""The console of a node of a cluster over a shared store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykcoord.cli.web import ServerSource
from pykcoord.cluster.member import Serving
from pykcoord.web import Figures

if TYPE_CHECKING:
    from pykcoord.server.cluster_metrics import ClusterMetrics

__all__ = ["MemberSource"]


class MemberSource(ServerSource):
    """A `pykcoord.web.Source`: this node, and the others of the cluster at `location`."""

    def __init__(
        self, location: str, serving: Serving, metrics: ClusterMetrics, node_id: int
    ) -> None:
        engine, address, self._others, hear_others = serving
        super().__init__(location, engine, metrics, node_id, address, self._others)
        self.hearing = hear_others(self._streams.put)
        """Has it hear of the groups of other nodes while it runs."""

    @property
    def hears_all(self) -> bool:
        """Whether all other nodes tell."""
        return self.hearing.hears_all

    @property
    def controller(self) -> int | None:
        """As the cluster log says."""
        return self._others.controller

    def node_of(self, shard: int) -> int | None:
        """As the cluster log says."""
        leader = self._others.leader(shard)
        return None if leader is None else leader.node_id

    def figures(self) -> Figures:
        """Likewise, but that other nodes lead shards is no failure."""
        return {name: of for name, of in super().figures().items() if name != "shards_away"}

    def is_ready(self) -> bool:
        """Whether the node belongs to the cluster."""
        known = {broker.node_id for broker in self._others.brokers()}
        return not self._ended and self._own.node_id in known
