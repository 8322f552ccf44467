"""What happened to groups since the console began: bounded, the newest kept."""

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

    def put(self, event: Event) -> None:
        """One more. The group to which nothing happened for longest gives way."""
        events = self._groups.setdefault(event.group_id, deque())
        self._groups.move_to_end(event.group_id)
        events.append(event)
        self._count += 1
        if len(events) > _PER_GROUP:
            events.popleft()
            self._count -= 1
            self.dropped += 1
        while self._count > _MOST_EVENTS:
            _, oldest = self._groups.popitem(last=False)
            self._count -= len(oldest)
            self.dropped += len(oldest)

    def of(self, group_id: str) -> Sequence[Event]:
        """Those of a group, the oldest first."""
        return tuple(self._groups.get(group_id, ()))

    def rebalances(self, group_id: str) -> int:
        """How often a group began to rebalance in the last hour, as far as it is kept."""
        since_ms = self._now_ms() - HOUR_MS
        return sum(
            one.kind in REBALANCE_STARTS and one.timestamp_ms >= since_ms
            for one in self._groups.get(group_id, ())
        )

    def rebalanced(self) -> dict[str, int]:
        """Rebalances of the last hour of all groups that had some."""
        counts = {group_id: self.rebalances(group_id) for group_id in self._groups}
        return {group_id: count for group_id, count in counts.items() if count}

    def generation(self, group_id: str) -> int | None:
        """The newest generation or epoch that was told."""
        events = self._groups.get(group_id, ())
        return next(
            (
                one.generation_id
                for one in reversed(events)
                if one.kind in ("group_stable", "join_phase_completed", "group_epoch_bumped")
            ),
            None,
        )
