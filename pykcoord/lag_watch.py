"""Looks out for partitions that fall behind while their owner commits nothing.

Only of topics whose ends are known (`set_end_offsets`, `--end-offsets`): without them it costs
nothing. It looks at one shard at a time, and tells the recorder.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from pykcoord.catalogue import TopicCatalogue
from pykcoord.consumer_protocol import decode_assignment

__all__ = ["LagWatch"]

# A partition is told of when nothing was committed for so long while its lag grew, and again when
# the lag has doubled.
_STILL_MS = 60_000
_MOST_PARTITIONS = 200_000
_Place = tuple[str, str, int]


class Views(Protocol):
    """What is asked of the node: rows of offsets and of groups of a shard."""

    @property
    def shards(self) -> int: ...
    def offsets(self, shard: int) -> list[tuple[Any, ...]]: ...
    def groups(self, shard: int) -> list[tuple[Any, ...]]: ...


class _Still:
    """A partition that is where it was: since when, and how far behind it was then."""

    __slots__ = ("lag", "offset", "since_ms", "told_lag")

    def __init__(self, offset: int, lag: int, since_ms: int) -> None:
        self.offset, self.lag, self.since_ms = offset, lag, since_ms
        self.told_lag = 0


class LagWatch:
    """Of one node. `take` is given events, as the native node has them."""

    def __init__(
        self,
        node: Views,
        catalogue: TopicCatalogue,
        take: Callable[[list[tuple[int, int, bytes, bytes]]], None],
    ) -> None:
        self._node = node
        self._catalogue = catalogue
        self._take = take
        self._still: dict[_Place, _Still] = {}
        self._next = 0

    def look(self, now_ms: int) -> None:
        """At the next shard. To be called now and then, on the loop."""
        ends: dict[str, Mapping[int, int]] = {
            name: topic.end_offsets
            for name, topic in self._catalogue.topics().items()
            if topic.end_offsets
        }
        shard = self._next
        self._next = (shard + 1) % self._node.shards
        if not ends:
            self._still.clear()
            return
        late: list[tuple[_Place, int, _Still]] = []
        for group, topic, partition, offset, *_ in self._node.offsets(shard):
            end = ends.get(topic, {}).get(partition)
            if end is None:
                continue
            place, lag = (group, topic, partition), end - offset
            still = self._still.get(place)
            if still is None or still.offset != offset or lag <= 0:
                if lag > 0 and len(self._still) < _MOST_PARTITIONS:
                    self._still[place] = _Still(offset, lag, now_ms)
                else:
                    self._still.pop(place, None)
            elif now_ms - still.since_ms >= _STILL_MS and lag > max(still.lag, 2 * still.told_lag):
                late.append((place, lag, still))
        if late:
            self._tell(shard, now_ms, late)

    def _tell(self, shard: int, now_ms: int, late: list[tuple[_Place, int, _Still]]) -> None:
        rows = self._node.groups(shard)
        recorded = []
        for (group, topic, partition), lag, still in late:
            owner = self._owner(rows, group, topic, partition)
            if owner is None:
                continue  # nobody is there to commit
            still.told_lag = lag
            fields = {
                "kind": "lag_grows",
                "group_id": group,
                "timestamp_ms": now_ms,
                "detail": f"{topic}-{partition}",
                "count": lag,
                "silent_ms": now_ms - still.since_ms,
                "member": owner,
            }
            value = json.dumps(fields, separators=(",", ":")).encode()
            recorded.append((shard, now_ms, group.encode(), value))
        if recorded:
            self._take(recorded)

    def _owner(
        self, rows: list[tuple[Any, ...]], group: str, topic: str, partition: int
    ) -> dict[str, Any] | None:
        """The member that has a partition, as JSON of an event names it; None: nobody has."""
        known = self._catalogue.topics().get(topic)
        topic_id = known.topic_id.bytes if known is not None else b""
        for row in rows:
            if row[0] != group:
                continue
            for member_id, instance, client_id, client_host, _, _, _, assignment, of in row[8]:
                if of is not None:
                    has = any(
                        one == topic_id and partition in numbers for one, numbers in of["assigned"]
                    )
                else:
                    has = (topic, partition) in _assigned(assignment)
                if has:
                    owner = {"member_id": member_id, "group_instance_id": instance}
                    owner |= {"client_id": client_id, "client_host": client_host}
                    return {name: value for name, value in owner.items() if value is not None}
        return None


def _assigned(assignment: bytes) -> frozenset[tuple[str, int]]:
    try:
        return decode_assignment(assignment) if assignment else frozenset()
    except (ValueError, IndexError):
        return frozenset()
