"""What a node tells of itself: lines of the log with an `event`, and metrics. Decides nothing.

`cause` is `start` where nobody led the shards, `takeover` after a fence, `handover` from a node
that let go of them. Shards that come or go together are one event; a shard and its epoch stand at
the same place of their lists.

| event | fields |
|---|---|
| `takeover` | `shards`, `epochs`, `cause`, `from_node`, `ms` (the longest): they are served |
| `released` | `shards`, `epochs`: other nodes lead them, or are to |
| `fence` | `node`: it is silent or gone, and gets a fence; a warning if it led shards, and is not |
| | an earlier start of this node |
| `new_cluster` | `node`, `location`: there was none, this node has made one |
| `control_refused` | `node`, `reason`: it does not prove that it knows the secret |
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pykcoord._native import ClusterNode
from pykcoord.clock import monotonic_seconds
from pykcoord.ranges import ranges

if TYPE_CHECKING:
    from pykcoord.server.cluster_metrics import ClusterMetrics

__all__ = ["Watch"]

logger = logging.getLogger("pykcoord.cluster")

# Shards that come or go within so long are told of in one line.
_TOGETHER_SECONDS = 0.5

_Lineage = Sequence[tuple[int, int, int, int | None, int]]


class Watch:
    """What is told of `node`, to the log and to `metrics`, if any; `node_id` is its own. On the
    node's loop, but for `proved`."""

    def __init__(
        self, node: ClusterNode, node_id: int, lease_ms: int, metrics: ClusterMetrics | None
    ) -> None:
        self._node = node
        self._node_id = node_id
        self._metrics = metrics
        self._lease_ms = lease_ms
        self._proved_ms: int | None = None
        self._rounds = 0
        self._taking: dict[int, tuple[float, str, int | None]] = {}
        self._refused: dict[int, str] = {}
        # To be told of: when the first of them came or went, and the epochs of all.
        self._served: dict[tuple[str, int | None], dict[int, int]] = {}
        self._released: dict[int, int] = {}
        self._longest = 0.0
        self._since: float | None = None

    def proved(self, started_ms: int) -> None:
        """A round stands that was put from then on. On any thread."""
        self._proved_ms = started_ms
        self._rounds += 1

    def look(self, now_ms: int) -> None:
        """Take the figures of now, and tell of the shards that came and went."""
        if self._since is not None and monotonic_seconds() > self._since + _TOGETHER_SECONDS:
            self.tell_shards()
        if self._metrics is None:
            return
        figures, node = self._metrics.figures, self._node
        if self._proved_ms is not None:
            figures.lease_left_seconds = (self._proved_ms + self._lease_ms - now_ms) / 1000
        figures.rounds += self._rounds
        self._rounds = 0
        figures.is_controller = node.controller == node.incarnation
        figures.nodes = len(node.members)
        figures.term = node.term

    def takes(self, shard: int, lineage: _Lineage) -> None:
        """It begins to read a shard; `lineage` are those who led it, itself last."""
        before = lineage[-2][0] if len(lineage) > 1 else None
        seats = {one[0]: one[1] for one in self._node.members}
        cause, node_id = "start", None
        if before is not None:
            cause = "handover" if before in seats else "takeover"
            node_id = seats.get(before)
        self._taking.setdefault(shard, (monotonic_seconds(), cause, node_id))

    def serves(self, shard: int, epoch: int) -> None:
        """It serves a shard now."""
        since, cause, node_id = self._taking.pop(shard, (monotonic_seconds(), "start", None))
        seconds = monotonic_seconds() - since
        if self._metrics is not None:
            self._metrics.taken(cause, seconds)
        self._begin_to_gather()
        self._served.setdefault((cause, node_id), {})[shard] = epoch
        self._longest = max(self._longest, seconds)

    def releases(self, shard: int, epoch: int) -> None:
        """It serves a shard no more."""
        self._taking.pop(shard, None)
        self._begin_to_gather()
        self._released[shard] = epoch

    def _begin_to_gather(self) -> None:
        if self._since is None:
            self._since = monotonic_seconds()

    def tell_shards(self) -> None:
        """Log those that came and went since the last time."""
        self._since = None
        if released := self._released:
            self._released = {}
            lists = {"shards": [*released], "epochs": [*released.values()]}
            text = ranges(released)
            logger.info("lets go of shards %s", text, extra={"event": "released", **lists})
        served, self._served = self._served, {}
        longest, self._longest = self._longest, 0.0
        for (cause, node_id), epochs in served.items():
            extra = {
                "event": "takeover",
                "shards": [*epochs],
                "epochs": [*epochs.values()],
                "cause": cause,
                "from_node": node_id,
                "ms": round(1000 * longest),
            }
            node = "" if node_id is None else f" from node {node_id}"
            logger.info("leads shards %s (%s%s)", ranges(epochs), cause, node, extra=extra)

    def fences(self, incarnation: int) -> None:
        """It begins to fence another node, or an earlier start of this one."""
        node_id, named = self._id(incarnation), self._named(incarnation)
        extra = {"event": "fence", "node": node_id}
        led = any(leader is not None and leader[0] == incarnation for leader in self._node.leaders)
        if node_id == self._node_id:
            rest = "its shards are taken over" if led else "it led nothing"
            text = "the start of this node before this one (node %s) is over: %s"
            logger.info(text, named, rest, extra=extra)
        elif led:
            logger.warning("node %s is silent or gone: its shards move", named, extra=extra)
        else:  # one that leaves gives its shards away first
            logger.info("node %s is gone, and led nothing", named, extra=extra)

    def refused(self, incarnation: int, reason: str) -> None:
        """Another node does not prove that it knows the secret."""
        if self._refused.get(incarnation) != reason:
            self._refused[incarnation] = reason
            extra = {
                "event": "control_refused",
                "node": self._id(incarnation),
                "reason": reason,
            }
            logger.error(
                "node %s cannot be asked: %s", self._named(incarnation), reason, extra=extra
            )

    def _id(self, incarnation: int) -> int | None:
        return next((one[1] for one in self._node.members if one[0] == incarnation), None)

    def _named(self, incarnation: int) -> str:
        for one in self._node.members:
            if one[0] == incarnation:
                return f"{one[1]} at {one[2]}:{one[3]}"
        return f"{incarnation:016x}"
