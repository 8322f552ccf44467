"""What the console is about: the coordinator behind it, as the console needs it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from pykcoord.catalogue import Topic
from pykcoord.event_stream import EventStream
from pykcoord.events import Event
from pykcoord.lag import Behind, Place

__all__ = ["Ends", "Figures", "NodeAddress", "Past", "Source"]

Ends = dict[tuple[str, int], int]
"""Where partitions end, by topic and number."""

Figures = dict[str, Any]
"""Counts of one process by name, fit for JSON."""


class NodeAddress(NamedTuple):
    """One node: its id, and where clients reach it; an empty host: only in this process."""

    node_id: int
    host: str
    port: int


class Past(NamedTuple):
    """What is kept of a group and of the whole coordinator: `events` in the order of time, and
    since when (ms since the epoch; None: nothing is kept)."""

    events: Sequence[Event]
    since_ms: int | None


class Source(Protocol):
    """A coordinator. All is called on the console's thread; what is no coroutine returns at once,
    but for `past`, `kept_mark`, `rebalanced_since`, `figures` and `metrics`, which are called on
    further threads and may block."""

    @property
    def name(self) -> str:
        """What is served, in words: a directory."""

    @property
    def shards(self) -> int:
        """How many shards there are."""

    @property
    def is_watched(self) -> bool:
        """Whether another coordinator's groups are only watched."""

    @property
    def tells_all(self) -> bool:
        """Whether no other process coordinates groups: `events` has all that is kept later."""

    @property
    def hears_all(self) -> bool:
        """Whether `events` has what happens to all groups now, those of other processes too."""

    def hears(self, group_id: str) -> bool:
        """Whether `events` has what happens to this group now."""

    def nodes(self) -> Sequence[NodeAddress]:
        """All nodes; this one is among them."""

    @property
    def controller(self) -> int | None:
        """The id of the node that is the controller, where there are several and it is known."""

    def node_of(self, shard: int) -> int | None:
        """The id of the node that leads a shard, as far as it is known."""

    def coordinator(self, group_id: str) -> NodeAddress:
        """Who coordinates a group. Raises OSError where nobody is known."""

    async def ask(self, node: NodeAddress, frame: bytes) -> bytes:
        """The response frame to a request frame, both without their length. Raises OSError or
        KcoordError where there is none."""

    def parts(self, node: NodeAddress, frame: bytes) -> AsyncIterator[bytes]:
        """The same as it comes, in parts."""

    def topics(self) -> Mapping[str, Topic]:
        """All topics by name."""

    async def ends(self, wanted: Mapping[str, Sequence[int]]) -> Ends:
        """Where partitions end, by topic; what is not known is missing."""

    async def behind(self, committed: Sequence[tuple[Place, int]]) -> Sequence[Behind]:
        """Of each partition with the offset that is committed, since when its end is beyond it, as
        far as ends are known."""

    async def lag_history(self, group_id: str) -> Mapping[Place, Sequence[tuple[int, int]]]:
        """The lag of a group by partition, as it was sampled: times in ms and lags, the oldest
        first."""

    def events(self) -> EventStream:
        """What happens to groups from now on."""

    def past(self, group_id: str) -> Past:
        """What is kept of a group."""

    def kept_mark(self, group_id: str) -> object:
        """Another value once other processes keep more of a group, at little cost; None: not known.
        Raises OSError."""

    def rebalanced_since(self, since_ms: int) -> Sequence[tuple[str, int]] | None:
        """Rebalances of all groups since then, as far as they are kept: group id, and when. None:
        nothing is kept."""

    def figures(self) -> Figures:
        """Counts of this process."""

    def metrics(self, accept: str) -> tuple[bytes, str]:
        """For Prometheus: text and its content type, as `accept` prefers it."""

    def is_ready(self) -> bool:
        """Whether clients are served."""
