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


class History:
    """Events by group. On the console's loop only. `now_ms` is the clock."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self.since_ms = now_ms()
        """When it began."""
        self.dropped = 0
        """Events that came and are not kept any more."""
        self._groups: OrderedDict[str, deque[Event]] = OrderedDict()
        self._count = 0
        self._cut: set[str] = set()
        self._before: dict[str, list[int]] = {}
        self.counts_since_ms = self.since_ms
        """Since when rebalances are counted."""

    def count_before(self, rebalanced: Sequence[tuple[str, int]], since_ms: int) -> None:
        """Rebalances from before it began, by group and time, all since `since_ms`."""
        for group_id, at_ms in rebalanced:
            if at_ms < self.since_ms:
                self._before.setdefault(group_id, []).append(at_ms)
        self.counts_since_ms = min(since_ms, self.since_ms)

    def is_cut(self, group_id: str) -> bool:
        """Whether events of a group came that are not kept any more."""
        return group_id in self._cut

    def put(self, event: Event) -> None:
        """One more. The group to which nothing happened for longest gives way."""
        events = self._groups.setdefault(event.group_id, deque())
        self._groups.move_to_end(event.group_id)
        events.append(event)
        self._count += 1
        if len(events) > _PER_GROUP:
            events.popleft()
            self._cut.add(event.group_id)
            self._count -= 1
            self.dropped += 1
        while self._count > _MOST_EVENTS:
            group_id, oldest = self._groups.popitem(last=False)
            self._cut.discard(group_id)
            self._count -= len(oldest)
            self.dropped += len(oldest)

    def of(self, group_id: str) -> Sequence[Event]:
        """Those of a group, the oldest first."""
        return tuple(self._groups.get(group_id, ()))

    def rebalances(self, group_id: str) -> int:
        """How often a group began to rebalance in the last hour, as far as it is kept."""
        since_ms = self._now_ms() - HOUR_MS
        heard = sum(
            one.kind in REBALANCE_STARTS and one.timestamp_ms >= since_ms
            for one in self._groups.get(group_id, ())
        )
        return heard + sum(at_ms >= since_ms for at_ms in self._before.get(group_id, ()))

    def rebalanced(self) -> dict[str, int]:
        """Rebalances of the last hour of all groups that had some."""
        known = self._groups.keys() | self._before.keys()
        counts = {group_id: self.rebalances(group_id) for group_id in known}
        return {group_id: count for group_id, count in counts.items() if count}


def newest_generation(events: Sequence[Event]) -> int | None:
    """The newest generation or epoch that these tell."""
    kinds = ("group_stable", "join_phase_completed", "group_epoch_bumped", "log_begins")
    return next((one.generation_id for one in reversed(events) if one.kind in kinds), None)
