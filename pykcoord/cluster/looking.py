"""A cluster looked at from outside, by its log alone: nothing is asked of a node, nothing put."""

from __future__ import annotations

from typing import NamedTuple

from pykcoord._native import ClusterView
from pykcoord.errors import KcoordError
from pykcoord.log.shared import Store, open_store
from pykcoord.log.shared.rounds import entry_name

__all__ = ["ClusterState", "NodeState", "read_cluster"]


class NodeState(NamedTuple):
    """A node that is not gone, as far as the cluster log tells; `shards` are those that it is to
    lead, each with its epoch. `incarnation` names its journal."""

    node_id: int
    incarnation: int
    host: str
    port: int
    control_host: str
    control_port: int
    is_controller: bool
    shards: dict[int, int]


class ClusterState(NamedTuple):
    """`entries` is the number of entries of the cluster log, `term` how many controllers there
    were, `unled` the shards that have no leader."""

    entries: int
    term: int
    shards: int
    nodes: list[NodeState]
    unled: list[int]


def read_cluster(location: str) -> ClusterState:
    """The state of the cluster at a folder or URL. Raises KcoordError if there is none there or its
    log cannot be read, and what the store raises."""
    view = _view(open_store(location), location)
    led: dict[int, dict[int, int]] = {}
    unled = []
    for shard, leader in enumerate(view.leaders):
        if leader is None:
            unled.append(shard)
        else:
            led.setdefault(leader[0], {})[shard] = leader[1]
    nodes = [
        NodeState(
            node_id,
            incarnation,
            host,
            port,
            control_host,
            control_port,
            incarnation == view.controller,
            led.get(incarnation, {}),
        )
        for incarnation, node_id, host, port, control_host, control_port in view.members
    ]
    return ClusterState(view.next_index, view.term, len(view.leaders), nodes, unled)


def _view(store: Store, location: str) -> ClusterView:
    view = ClusterView()
    while (content := store.read(entry_name(view.next_index))) is not None:
        try:
            view.apply(content.decode())
        except ValueError as error:  # UnicodeDecodeError is one
            raise KcoordError(f"{location}: the cluster log: {error}") from None
    if view.next_index == 0:
        raise KcoordError(f"{location}: there is no cluster; `pykcoord serve --cluster` makes one")
    return view
