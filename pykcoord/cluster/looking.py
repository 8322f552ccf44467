"""A cluster looked at from outside, by its log alone: nothing is asked of a node, nothing put."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from pykcoord._native import ClusterView
from pykcoord.cluster.reading import Stretch
from pykcoord.errors import KcoordError
from pykcoord.log.shared import Store, open_store
from pykcoord.log.shared.rounds import CLUSTER_LOG, entry_name

__all__ = [
    "ClusterFollower",
    "ClusterState",
    "NodeState",
    "is_cluster",
    "read_cluster",
    "require_no_shard_log",
    "require_whole_log",
]

_SHARD_LOG = "log.json"


class NodeState(NamedTuple):
    """A node that is not gone, as the cluster log tells: its `node_id`, the `host` and the `port`
    where clients reach it, `control_host` and `control_port` where the other nodes do. `shards`: it
    is to lead these, each with its epoch. `incarnation` names its journal. `is_controller`:
    it decides who leads; `is_drained`: operators want it to lead nothing."""

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
    were, `shards` the number of shards, `nodes` those that are there, by id, `unled` the shards
    that have no leader. `pins`: shard to the node id where operators want
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

    def lineage(self, shard: int) -> list[Stretch]:
        """Where the records of a shard are, the oldest first, as of the last `read`."""
        return [Stretch(*one) for one in self._view.lineage(shard)]

    def put(self, index: int, text: str) -> bool:
        """Put the entry of this number; False if there is one. Raises what the store raises."""
        return self._store.create(entry_name(index), text.encode())


def read_cluster(location: str) -> ClusterState:
    """The state of the cluster at a folder or URL. Raises as `ClusterFollower.read`."""
    return ClusterFollower(location).read()


def is_cluster(store: Store) -> bool:
    """Whether nodes have begun a cluster in this store. Raises what the store raises."""
    return store.read(entry_name(0)) is not None


def require_no_shard_log(location: str | Path, store: Store) -> None:
    """Raises KcoordError where the store has a log with objects for each shard, as streams write
    and hosts of Spark once did; and what the store raises."""
    if not is_cluster(store) and store.read(_SHARD_LOG) is not None:
        where = os.fspath(location)
        raise KcoordError(
            f"{where} has a {_SHARD_LOG}: it is the log of a stream, or of hosts before they had "
            f"journals. A log of such hosts is carried over with `pykcoord cluster convert {where} "
            "NEW`"
        )


def require_whole_log(location: str | Path, store: Store) -> None:
    """Raises KcoordError where the store has lost an entry of the cluster log that others came
    after: who does not see it would put another one there. Raises what the store raises."""
    names = store.names(CLUSTER_LOG)
    for index, name in enumerate(names):
        if int(name) == index:
            continue
        if store.read(entry_name(index)) is None:  # or else it is only not listed
            raise KcoordError(
                f"{os.fspath(location)}: {entry_name(index)} is gone, and there are entries of the "
                "cluster log after it: restore it from a copy. Nothing is served from what is left"
            )
        return


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
