"""A cluster looked at from outside, by its log alone: nothing is asked of a node, nothing put."""

from __future__ import annotations

from typing import NamedTuple

from pykcoord._native import ClusterView
from pykcoord.errors import KcoordError
from pykcoord.log.shared import Store, open_store
from pykcoord.log.shared.rounds import entry_name

__all__ = ["ClusterFollower", "ClusterState", "NodeState", "read_cluster"]


class NodeState(NamedTuple):
    """A node that is not gone, as far as the cluster log tells; `shards` are those that it is to
    lead, each with its epoch. `incarnation` names its journal. `is_drained`: operators want it to
    lead nothing."""

    node_id: int
    incarnation: int
    host: str
    port: int
    control_host: str
    control_port: int
    is_controller: bool
    is_drained: bool
    shards: dict[int, int]


class ClusterState(NamedTuple):
    """`entries` is the number of entries of the cluster log, `term` how many controllers there
    were, `unled` the shards that have no leader. `pins`: shard to the node id where operators want
    it; `drained`: ids of nodes that they want to lead nothing, also of nodes that are not there."""

    entries: int
    term: int
    shards: int
    nodes: list[NodeState]
    unled: list[int]
    pins: dict[int, int]
    drained: list[int]

    def node(self, node_id: int) -> NodeState | None:
        """The node of this id, if it is there."""
        return next((one for one in self.nodes if one.node_id == node_id), None)

    def leader(self, shard: int) -> int | None:
        """The id of the node that is to lead a shard."""
        return next((one.node_id for one in self.nodes if shard in one.shards), None)


class ClusterFollower:
    """The cluster at `location` (a folder or URL). Each `read` goes on where the last one ended."""

    def __init__(self, location: str, store: Store | None = None) -> None:
        self.location = location
        self._store = open_store(location) if store is None else store
        self._view = ClusterView()

    def read(self) -> ClusterState:
        """The state now. Raises KcoordError if there is no cluster or its log cannot be read, and
        what the store raises."""
        view = self._view
        while (content := self._store.read(entry_name(view.next_index))) is not None:
            try:
                view.apply(content.decode())
            except ValueError as error:  # UnicodeDecodeError is one
                raise KcoordError(f"{self.location}: the cluster log: {error}") from None
        if view.next_index == 0:
            raise KcoordError(
                f"{self.location}: there is no cluster; `pykcoord serve --cluster` makes one"
            )
        return _state(view)

    def put(self, index: int, text: str) -> bool:
        """Put the entry of this number; False if there is one. Raises what the store raises."""
        return self._store.create(entry_name(index), text.encode())


def read_cluster(location: str) -> ClusterState:
    """The state of the cluster at a folder or URL. Raises as `ClusterFollower.read`."""
    return ClusterFollower(location).read()


def _state(view: ClusterView) -> ClusterState:
    led: dict[int, dict[int, int]] = {}
    unled = []
    for shard, leader in enumerate(view.leaders):
        if leader is None:
            unled.append(shard)
        else:
            led.setdefault(leader[0], {})[shard] = leader[1]
    drained = view.drained
    nodes = [
        NodeState(
            node_id,
            incarnation,
            host,
            port,
            control_host,
            control_port,
            incarnation == view.controller,
            node_id in drained,
            led.get(incarnation, {}),
        )
        for incarnation, node_id, host, port, control_host, control_port in view.members
    ]
    shards = len(view.leaders)
    return ClusterState(view.next_index, view.term, shards, nodes, unled, view.pins, drained)
