"""A cluster looked at from outside, by its log alone: nothing is asked of a node, nothing put."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import NamedTuple

from pykcoord._native import ClusterView
from pykcoord.clock import boot_seconds
from pykcoord.cluster.cluster_log import begin, read_entries
from pykcoord.cluster.reading import Stretch
from pykcoord.errors import KcoordError
from pykcoord.log.checkpoint import PROPERTIES_FILE
from pykcoord.log.shared import Store, open_store
from pykcoord.log.shared.rounds import entry_name

__all__ = [
    "ClusterFollower",
    "ClusterState",
    "NodeState",
    "is_cluster",
    "read_cluster",
    "require_no_shard_log",
]

_SHARD_LOG = "log.json"
# What was read so long ago may be followed by entries that are gone: it is read anew.
_STALE_SECONDS = 60.0


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
        self._read_at = -math.inf

    def read(self) -> ClusterState:
        """The state now. Raises KcoordError if there is no cluster or its log cannot be read, and
        what the store raises."""
        began_at, is_stale = boot_seconds(), self._is_stale()
        try:
            view = ClusterView(begin(self.location, self._store)) if is_stale else self._view
            for text in read_entries(self._store, view.next_index):
                view.apply(text)
        except ValueError as error:  # UnicodeDecodeError is one
            raise KcoordError(f"{self.location}: the cluster log: {error}") from None
        self._view, self._read_at = view, began_at
        if view.next_index == 0:
            raise KcoordError(
                f"{self.location}: there is no cluster; `pykcoord serve --cluster` makes one"
            )
        return _state(view)

    def lineage(self, shard: int) -> list[Stretch]:
        """Where the records of a shard are, the oldest first, as of the last `read`."""
        return [Stretch(*one) for one in self._view.lineage(shard)]

    def put(self, index: int, text: str) -> bool:
        """Put the entry of this number; False if there is one, or if the last `read` is so long
        ago that there may have been one. Raises what the store raises."""
        return not self._is_stale() and self._store.create(entry_name(index), text.encode())

    def _is_stale(self) -> bool:
        return boot_seconds() > self._read_at + _STALE_SECONDS


def read_cluster(location: str) -> ClusterState:
    """The state of the cluster at a folder or URL. Raises as `ClusterFollower.read`."""
    return ClusterFollower(location).read()


def is_cluster(store: Store) -> bool:
    """Whether nodes have begun a cluster in this store. Raises what the store raises."""
    return store.read(entry_name(0)) is not None


def require_no_shard_log(location: str | Path, store: Store) -> None:
    """Raises KcoordError where the store has a log with objects for each shard, as streams write
    and hosts of Spark once did, or is the data directory of one server; and what the store
    raises."""
    if is_cluster(store):
        return
    where = os.fspath(location)
    if store.read(PROPERTIES_FILE) is not None:
        raise KcoordError(
            f"{where} is the data directory of one server, which a cluster does not read: name "
            "another folder, or serve it without --cluster"
        )
    if store.read(_SHARD_LOG) is not None:
        raise KcoordError(
            f"{where} has a {_SHARD_LOG}: it is the log of a stream, or of hosts before they had "
            f"journals. A log of such hosts is carried over with `pykcoord cluster convert {where} "
            "NEW`"
        )


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
