"""How far groups are behind, and which partitions fall behind while their owner commits nothing.

Only of topics whose ends are known (`set_end_offsets`, `--end-offsets`): without them it costs
nothing. It looks at one shard at a time, tells the recorder, and is asked for metrics.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol
from uuid import UUID

from pykcoord._native import EventBatch
from pykcoord.catalogue import TopicCatalogue
from pykcoord.consumer_protocol import decode_assignment
from pykcoord.lag import (
    Behind,
    EndTimes,
    GroupLag,
    GroupPlace,
    LagHistory,
    LagLimits,
    Lags,
    Owner,
    PartitionLag,
    Place,
    Stalls,
    matching,
    widest,
)

__all__ = ["LagWatch"]

_FRESH_OFFSETS = 20_000
# Of offsets, or of ends, in one step of a look: it takes a millisecond or two.
_AT_ONCE = 512


class Views(Protocol):
    """What is asked of the node: rows of offsets and of groups of a shard."""

    @property
    def shards(self) -> int: ...
    def offsets(self, shard: int) -> list[tuple[Any, ...]]: ...
    def groups(self, shard: int) -> list[tuple[Any, ...]]: ...
    def stats(self) -> dict[str, Any]: ...


class LagWatch:
    """Of one node. `take` is given events, as the native node has them; `limits` bound what `lags`
    tells. On the node's loop only."""

    def __init__(
        self,
        node: Views,
        catalogue: TopicCatalogue,
        take: Callable[[EventBatch], None],
        limits: LagLimits | None = None,
    ) -> None:
        self._node = node
        self._catalogue = catalogue
        self._take = take
        self.limits = limits or LagLimits()
        self._wanted = matching(self.limits.include)
        self._stalls = Stalls()
        self.history = LagHistory()
        """Of the groups that are furthest behind."""
        self._next = 0
        self._times = EndTimes()
        # Of each shard what the groups furthest behind had committed, and how many others it has.
        self._committed: dict[int, dict[str, dict[tuple[str, int], int]]] = {}
        self._others: dict[int, int] = {}
        # Rows of groups, until something happens to one of the shard.
        self._rows: dict[int, dict[str, tuple[Any, ...] | None]] = {}

    def hear(self, shards: Iterable[int]) -> None:
        """Something happened to groups of these shards: who owns what is another now."""
        for shard in shards:
            self._rows.pop(shard, None)

    def look(self, now_ms: int) -> None:
        """At the next shard. To be called now and then."""
        for _ in self.looking(now_ms):
            pass

    def looking(self, now_ms: int) -> Iterator[None]:
        """The same in steps: others are served between them."""
        shard = self._next
        self._next = (shard + 1) % self._node.shards
        ends = self._ends()
        if shard == 0:
            yield from self._sampling(ends, now_ms)
        yield from self._looking_at(shard, ends, now_ms)

    async def lags(self, now_ms: int) -> Lags:
        """The groups that are furthest behind, with their owners and the ends of now. Of more than
        20,000 offsets, these are as of the last look at their shard, within half a minute. In steps
        too."""
        ends = self._ends()
        if ends and self._node.stats().get("offsets", 0) <= _FRESH_OFFSETS:
            await _between(self._sampling(ends, now_ms))
            for shard in range(self._node.shards):
                await _between(self._looking_at(shard, ends, now_ms))
        kept = {
            group: (shard, of)
            for shard, groups in self._committed.items()
            for group, of in groups.items()
        }
        sums: list[tuple[str, int]] = []
        await _between(_summing(ends, ((group, of) for group, (_, of) in kept.items()), sums))
        chosen, left_out = widest(sums, self.limits.groups)
        found = []
        for group in chosen:
            shard, of = kept[group]
            partitions: list[PartitionLag] = []
            await _between(self._partitions(shard, group, of, ends, now_ms, partitions))
            found.append(GroupLag(group, partitions))
        return Lags(found, left_out + sum(self._others.values()))

    def behind(self, committed: Sequence[tuple[Place, int]], now_ms: int) -> list[Behind]:
        """Of each partition with the offset that is committed, since when its end is beyond it."""
        topics = self._catalogue.topics()
        for (topic, partition), _ in committed:
            if (known := topics.get(topic)) and (end := known.end_offsets.get(partition)):
                self._times.put((topic, partition), end, now_ms)
        return [Behind(*self._times.behind_ms(place, at, now_ms)) for place, at in committed]

    def _ends(self) -> dict[str, Mapping[int, int]]:
        topics = self._catalogue.topics().items()
        return {name: topic.end_offsets for name, topic in topics if topic.end_offsets}

    def _looking_at(
        self, shard: int, ends: Mapping[str, Mapping[int, int]], now_ms: int
    ) -> Iterator[None]:
        if not ends:
            self._stalls.clear()
            self._committed.clear()
            return
        late: list[tuple[GroupPlace, int, int]] = []
        committed: dict[str, dict[tuple[str, int], int]] = {}
        rows = self._node.offsets(shard)
        for number, (group, topic, partition, offset, *_) in enumerate(rows, 1):
            if number % _AT_ONCE == 0:
                yield
            end = ends.get(topic, {}).get(partition)
            if end is None:
                continue
            place, lag = (group, topic, partition), end - offset
            committed.setdefault(group, {})[topic, partition] = offset
            still_ms = self._stalls.look(place, offset, lag, now_ms)
            if still_ms is not None:
                late.append((place, lag, still_ms))
        yield from self._keeping(shard, ends, committed, now_ms)
        if late:
            yield from self._tell(shard, now_ms, late)

    def _sampling(self, ends: Mapping[str, Mapping[int, int]], now_ms: int) -> Iterator[None]:
        for number, (topic, partition) in enumerate(self._times.places(), 1):
            if partition not in ends.get(topic, {}):
                self._times.forget((topic, partition))
            if number % _AT_ONCE == 0:
                yield
        every = ((topic, *one) for topic, of in ends.items() for one in of.items())
        for number, (topic, partition, end) in enumerate(every, 1):
            self._times.put((topic, partition), end, now_ms)
            if number % _AT_ONCE == 0:
                yield

    def _keeping(
        self, shard: int, ends: Mapping[str, Mapping[int, int]],
        committed: dict[str, dict[tuple[str, int], int]], now_ms: int,
    ) -> Iterator[None]:  # fmt: skip
        known = {group: of for group, of in committed.items() if self._wanted(group)}
        sums: list[tuple[str, int]] = []
        yield from _summing(ends, known.items(), sums)
        chosen, self._others[shard] = widest(sums, self.limits.groups)
        kept = self._committed[shard] = {group: known[group] for group in chosen}
        every = ((group, *one) for group, of in kept.items() for one in of.items())
        for number, (group, (topic, partition), offset) in enumerate(every, 1):
            lag = max(0, ends[topic][partition] - offset)
            self.history.put((group, topic, partition), lag, now_ms)
            if number % _AT_ONCE == 0:
                yield

    def _partitions(
        self, shard: int, group: str, committed: Mapping[tuple[str, int], int],
        ends: Mapping[str, Mapping[int, int]], now_ms: int, found: list[PartitionLag],
    ) -> Iterator[None]:  # fmt: skip
        owners = self._owners(shard, group)
        yield
        for number, ((topic, partition), offset) in enumerate(committed.items(), 1):
            if number % _AT_ONCE == 0:
                yield
            end = ends.get(topic, {}).get(partition)
            if end is None:
                continue
            place = (topic, partition)
            behind_ms, is_at_least = self._times.behind_ms(place, offset, now_ms)
            lag, owner = max(0, end - offset), owners.get(place)
            found.append(PartitionLag(topic, partition, lag, behind_ms, is_at_least, owner))

    def _owners(self, shard: int, group: str) -> dict[tuple[str, int], Owner]:
        """Of all partitions of a group, by its members' state."""
        if group not in self._rows.get(shard, {}):
            wanted = self._committed.get(shard, {}).keys() | {group}
            rows = {row[0]: row for row in self._node.groups(shard) if row[0] in wanted}
            self._rows[shard] = {one: rows.get(one) for one in wanted}
        row = self._rows[shard][group]
        found: dict[tuple[str, int], Owner] = {}
        for member_id, instance, client_id, client_host, _, _, _, assignment, of in (
            row[8] if row is not None else ()
        ):
            owner = Owner(member_id, instance, client_id, client_host)
            if of is None:
                found |= dict.fromkeys(_assigned(assignment), owner)
                continue
            for topic_id, partitions in of["assigned"]:
                topic = self._catalogue.by_id(UUID(bytes=topic_id))
                name = topic.name if topic is not None else ""
                found |= dict.fromkeys(((name, one) for one in partitions), owner)
        return found

    def _tell(
        self, shard: int, now_ms: int, late: list[tuple[GroupPlace, int, int]]
    ) -> Iterator[None]:
        recorded = []
        self._rows.pop(shard, None)
        owners: dict[str, dict[tuple[str, int], Owner]] = {}
        for number, ((group, topic, partition), lag, still_ms) in enumerate(late, 1):
            if number % _AT_ONCE == 0:
                yield
            if group not in owners:  # offsets are sorted by group
                owners = {group: self._owners(shard, group)}
            owner = owners[group].get((topic, partition))
            if owner is None:
                continue  # nobody is there to commit
            self._stalls.told((group, topic, partition), lag)
            member = {
                "member_id": owner.member_id, "group_instance_id": owner.instance_id,
                "client_id": owner.client_id, "client_host": owner.client_host,
            }  # fmt: skip
            fields = {
                "kind": "lag_grows",
                "group_id": group,
                "timestamp_ms": now_ms,
                "detail": f"{topic}-{partition}",
                "count": lag,
                "silent_ms": still_ms,
                "member": {name: value for name, value in member.items() if value is not None},
            }
            value = json.dumps(fields, separators=(",", ":")).encode()
            recorded.append((shard, now_ms, group.encode(), value))
        if recorded:
            self._take(EventBatch(recorded))


async def _between(steps: Iterator[None]) -> None:
    """Do the work of the steps, with others served between them."""
    for _ in steps:
        await asyncio.sleep(0)


def _summing(
    ends: Mapping[str, Mapping[int, int]],
    groups: Iterable[tuple[str, Mapping[tuple[str, int], int]]],
    found: list[tuple[str, int]],
) -> Iterator[None]:
    """Find the lag of each group."""
    added = 0
    for group, committed in groups:
        found.append((group, _sum(ends, committed)))
        added += len(committed)
        if added >= _AT_ONCE:
            added = 0
            yield


def _sum(ends: Mapping[str, Mapping[int, int]], committed: Mapping[tuple[str, int], int]) -> int:
    return sum(
        max(0, ends.get(topic, {}).get(partition, offset) - offset)
        for (topic, partition), offset in committed.items()
    )


def _assigned(assignment: bytes) -> frozenset[tuple[str, int]]:
    try:
        return decode_assignment(assignment) if assignment else frozenset()
    except (ValueError, IndexError):
        return frozenset()
