"""The console of a node of a Kafka cluster: the groups of the whole cluster, whichever broker
coordinates them, and what this node kept of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pykcoord._native import partition_of
from pykcoord.cli.web import ServerSource
from pykcoord.kafka import ClusterError
from pykcoord.log.folders import TOPIC
from pykcoord.node.member import KafkaNode
from pykcoord.server import Broker
from pykcoord.web import Ends, Figures

if TYPE_CHECKING:
    from pykcoord.server.metrics import ServerMetrics

__all__ = ["KafkaNodeSource"]


class _Brokers:
    """The brokers of the cluster, this node among them, as the metadata log has them; see
    `pykcoord.server.Peers`."""

    def __init__(self, node: KafkaNode) -> None:
        self._node = node

    @property
    def version(self) -> int:
        return self._node.quorum.image.offset

    @property
    def controller_id(self) -> int | None:
        """The active controller, which may be none of the brokers."""
        leader = self._node.quorum.leader
        return leader if leader >= 0 else None

    def brokers(self) -> Sequence[Broker]:
        known = self._node.quorum.image.brokers.values()
        return [
            Broker(one.broker_id, one.endpoints[0].host, one.endpoints[0].port)
            for one in known
            if one.endpoints and not one.is_fenced
        ]

    def coordinator(self, group_id: str) -> Broker | None:
        leader = self.leader(partition_of(group_id, self._node.partitions))
        return next((one for one in self.brokers() if one.node_id == leader), None)

    def leader(self, shard: int) -> int | None:
        """The id of the broker that leads a partition of `__consumer_offsets`."""
        known = self._node.quorum.image.of(TOPIC).get(shard)
        return known.leader if known is not None and known.leader >= 0 else None

    def ends(self, wanted: Mapping[str, Sequence[int]]) -> None:
        """Leaders of partitions are asked themselves."""


class KafkaNodeSource(ServerSource):
    """A `pykcoord.web.Source`: this node, and the brokers of its cluster. Made on its loop."""

    def __init__(self, node: KafkaNode, metrics: ServerMetrics) -> None:
        self._node = node
        self._brokers = _Brokers(node)
        path, address = node.options.directory, node.server.address
        super().__init__(path, node.engine, metrics, node.node_id, address, self._brokers)

    def node_of(self, shard: int) -> int | None:
        """As the metadata log says."""
        return self._brokers.leader(shard)

    async def ends(self, wanted: Mapping[str, Sequence[int]]) -> Ends:
        """What the leaders of the partitions say; of those that do not answer, nothing."""
        try:
            return await asyncio.wrap_future(self._run(self._node.ends.of(wanted)))
        except ClusterError:
            return {}

    def figures(self) -> Figures:
        """Those of a server, but that brokers lead other shards is no failure."""
        return {name: of for name, of in super().figures().items() if name != "shards_away"}

    def is_ready(self) -> bool:
        """Whether a controller hears of the node."""
        return not self._ended and self._node.is_registered
