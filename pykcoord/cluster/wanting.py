"""What operators want of a cluster: a shard on a node, a node that leads nothing.

It is an entry of the cluster log, so that it outlives controllers and restarts. The controller does
it, shard by shard: the node that leads one lets it go, and the other goes on where that one ended.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence

from pykcoord._native import ClusterView
from pykcoord.cluster.looking import ClusterFollower, ClusterState
from pykcoord.errors import KcoordError

__all__ = ["drain", "move", "still_to_move"]

_WRITERS = 2**64


def move(
    cluster: ClusterFollower, shards: Sequence[int], node_id: int | None, *, dry_run: bool = False
) -> ClusterState:
    """Want these shards on a node; None: wherever the controller likes. Returns the state before.
    `dry_run`: only see whether it can be.

    Raises KcoordError for a shard or a node that the cluster does not have, and for a node that is
    to lead nothing; and as `ClusterFollower.read`.
    """

    def check(state: ClusterState) -> None:
        for shard in shards:
            if not 0 <= shard < state.shards:
                raise KcoordError(
                    f"shard {shard}: {cluster.location} has the shards 0 to {state.shards - 1}"
                )
        if node_id is not None:
            _check_node(cluster, state, node_id)
            if node_id in state.drained:
                raise KcoordError(
                    f"node {node_id} is drained: it is to lead nothing. First "
                    f"`pykcoord cluster drain {cluster.location} {node_id} --undo`"
                )

    entry = ClusterView.pin(secrets.randbelow(_WRITERS), [*shards], node_id)
    return _put(cluster, check, entry, dry_run)


def drain(
    cluster: ClusterFollower, node_id: int, *, undo: bool = False, dry_run: bool = False
) -> ClusterState:
    """Want a node to lead nothing; `undo`: to lead again. Returns the state before. `dry_run`: only
    see whether it can be.

    Raises KcoordError for a node that the cluster does not have, or that is the last that may lead;
    and as `ClusterFollower.read`.
    """

    def check(state: ClusterState) -> None:
        if undo and node_id in state.drained:
            return
        _check_node(cluster, state, node_id)
        others = [one for one in state.nodes if not one.is_drained and one.node_id != node_id]
        if not undo and not others:
            raise KcoordError(
                f"node {node_id}: no other node of {cluster.location} is there that may lead its "
                "shards"
            )

    entry = ClusterView.drain(secrets.randbelow(_WRITERS), node_id, not undo)
    return _put(cluster, check, entry, dry_run)


def still_to_move(state: ClusterState, shards: Sequence[int], node_id: int) -> list[int]:
    """Those of the shards that this node does not lead yet."""
    node = state.node(node_id)
    return [shard for shard in shards if node is None or shard not in node.shards]


def _check_node(cluster: ClusterFollower, state: ClusterState, node_id: int) -> None:
    if state.node(node_id) is None:
        there = ", ".join(str(one.node_id) for one in state.nodes) or "none"
        raise KcoordError(f"node {node_id} is not there; {cluster.location} has the nodes: {there}")


def _put(
    cluster: ClusterFollower,
    check: Callable[[ClusterState], None],
    entry: str,
    dry_run: bool,
) -> ClusterState:
    while True:
        state = cluster.read()
        check(state)
        if dry_run or cluster.put(state.entries, entry):
            return state
