"""What happened to groups since the console began: bounded, the newest kept. What was before is
read where it is kept (`pykcoord.web.past`)."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence

from pykcoord.events import REBALANCE_STARTS, Event

__all__ = ["History"]

HOUR_MS = 3_600_000
_PER_GROUP = 300
_MOST_EVENTS = 60_000
_MOST_STARTS = 200_000


class History:
    """Events by group, and rebalances of the last hour, which are counted also where their events
    are not kept any more. On the console's loop only. `now_ms` is the clock."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self.since_ms = now_ms()
        """When it began."""
        self.counts_since_ms = self.since_ms
        """Since when rebalances are counted."""
        self._groups: OrderedDict[str, deque[Event]] = OrderedDict()
        self._count = 0
        # Up to when events of a group, and of those that are not here, are not kept any more.
        self._cut_ms: dict[str, int] = {}
        self._forgotten_ms = -1
        # When groups began to rebalance; of some it is longer ago than an hour.
        self._starts: dict[str, list[int]] = {}
        self._start_count = 0

    def count_before(self, rebalanced: Sequence[tuple[str, int]], since_ms: int) -> None:
        """Rebalances from before it began, by group and time, all since `since_ms`."""
        self.counts_since_ms = min(since_ms, self.since_ms)
        for group_id, at_ms in rebalanced:
            if at_ms < self.since_ms:
                self._count_start(group_id, at_ms)

    def is_whole_since(self, group_id: str, at_ms: int) -> bool:
        """Whether all events of a group that came since then are kept."""
        return at_ms > max(self._cut_ms.get(group_id, -1), self._forgotten_ms)

    def put(self, event: Event) -> None:
        """One more. The group to which nothing happened for longest gives way."""
        if event.kind in REBALANCE_STARTS:
            self._count_start(event.group_id, event.timestamp_ms)
        events = self._groups.setdefault(event.group_id, deque())
        self._groups.move_to_end(event.group_id)
        events.append(event)
        self._count += 1
        if len(events) > _PER_GROUP:
            self._cut_ms[event.group_id] = events.popleft().timestamp_ms
            self._count -= 1
        while self._count > _MOST_EVENTS:
            group_id, oldest = self._groups.popitem(last=False)
            self._cut_ms.pop(group_id, None)
            self._forgotten_ms = max(self._forgotten_ms, oldest[-1].timestamp_ms)
            self._count -= len(oldest)

    def of(self, group_id: str) -> Sequence[Event]:
        """Those of a group, the oldest first."""
        return tuple(self._groups.get(group_id, ()))

    def rebalances(self, group_id: str) -> int:
        """How often a group began to rebalance in the last hour, as far as it is counted."""
        since_ms = self._now_ms() - HOUR_MS
        return sum(at_ms >= since_ms for at_ms in self._starts.get(group_id, ()))

    def rebalanced(self) -> dict[str, int]:
        """Rebalances of the last hour of all groups that had some."""
        counts = {group_id: self.rebalances(group_id) for group_id in self._starts}
        return {group_id: count for group_id, count in counts.items() if count}

    def _count_start(self, group_id: str, at_ms: int) -> None:
        self._starts.setdefault(group_id, []).append(at_ms)
        self._start_count += 1
        if self._start_count > _MOST_STARTS:
            self._forget_starts()

    def _forget_starts(self) -> None:
        """Those of more than an hour ago; and half, the older one, where there are too many."""
        since_ms = self._now_ms() - HOUR_MS
        times = sorted(at_ms for of in self._starts.values() for at_ms in of)
        half_ms = times[len(times) // 2]
        if half_ms > since_ms:
            since_ms = self.counts_since_ms = half_ms
        newer = {
            group_id: [at_ms for at_ms in of if at_ms >= since_ms]
            for group_id, of in self._starts.items()
        }
        self._starts = {group_id: of for group_id, of in newer.items() if of}
        self._start_count = sum(map(len, self._starts.values()))


def newest_generation(events: Sequence[Event]) -> int | None:
    """The newest generation or epoch that these tell."""
    kinds = ("group_stable", "join_phase_completed", "group_epoch_bumped", "log_begins")
    return next((one.generation_id for one in reversed(events) if one.kind in kinds), None)
