"""What happened before the console began, as it is kept: read once for each group that is looked
at, and again where other processes hear of groups."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import NamedTuple

from pykcoord.events import Event
from pykcoord.web.history import History
from pykcoord.web.source import Source

__all__ = ["Pasts", "Told"]

# Events of one group, and of all that are kept.
_MOST_EVENTS = 5_000
_MOST_KEPT = 100_000
# What other nodes hear of a group is not heard here: it is read again after so long.
_OTHERS_MS = 3_000
# After so many times what reading took it is looked whether there is more.
_LOOK_FACTOR = 10


class Told(NamedTuple):
    """Events of a group in the order of time, and since when they are known."""

    events: Sequence[Event]
    since_ms: int


class _Kept(NamedTuple):
    events: Sequence[Event]
    since_ms: int | None
    read_ms: int
    mark: object
    next_look_ms: int


class Pasts:
    """On the console's loop only."""

    def __init__(self, source: Source, history: History, now_ms: Callable[[], int]) -> None:
        self._source = source
        self._history = history
        self._now_ms = now_ms
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._count = 0

    async def of(self, group_id: str) -> Told:
        """What is kept of a group and what was heard since, without a gap between."""
        kept = self._kept.get(group_id)
        if kept is None or not self._goes_on(group_id, kept):
            kept = await self._read(group_id)
        self._kept.move_to_end(group_id)
        since_ms = self._history.since_ms if kept.since_ms is None else kept.since_ms
        joined = _joined if self._source.tells_all else _united
        return Told(joined(kept.events, self._history.of(group_id)), since_ms)

    async def has_more(self, group_id: str) -> bool:
        """Whether other processes have kept more of a group since it was read; then it is read
        anew the next time."""
        kept = self._kept.get(group_id)
        if kept is None or self._source.tells_all or self._now_ms() < kept.next_look_ms:
            return False
        if await asyncio.to_thread(self._source.kept_mark, group_id) == kept.mark:
            return False
        self._forget(group_id)
        return True

    def _goes_on(self, group_id: str, kept: _Kept) -> bool:
        """Whether all that came since it was read was heard here, and is kept."""
        if not self._source.tells_all and self._now_ms() > kept.read_ms + _OTHERS_MS:
            return False
        return self._history.is_whole_since(group_id, kept.read_ms)

    async def _read(self, group_id: str) -> _Kept:
        read_ms = self._now_ms()
        mark = await asyncio.to_thread(self._source.kept_mark, group_id)
        found = await asyncio.to_thread(self._source.past, group_id)
        next_look_ms = read_ms + _LOOK_FACTOR * (self._now_ms() - read_ms)
        events = found.events[-_MOST_EVENTS:]
        kept = _Kept(events, found.since_ms, read_ms, mark, next_look_ms)
        self._forget(group_id)
        self._kept[group_id] = kept
        self._count += len(kept.events) + 1
        while self._count > _MOST_KEPT:
            self._forget(next(iter(self._kept)))
        return kept

    def _forget(self, group_id: str) -> None:
        if (kept := self._kept.pop(group_id, None)) is not None:
            self._count -= len(kept.events) + 1


def _joined(before: Sequence[Event], live: Sequence[Event]) -> Sequence[Event]:
    """Both tell of the time around the begin of `live`, each event once."""
    if not live:
        return before
    start_ms = live[0].timestamp_ms
    first = [one for one in live if one.timestamp_ms == start_ms]
    older = [
        one
        for one in before
        if one.timestamp_ms < start_ms or (one.timestamp_ms == start_ms and one not in first)
    ]
    # Those of the whole coordinator are not heard live.
    newer = [one for one in before if not one.group_id and one.timestamp_ms > start_ms]
    if not newer:
        return [*older, *live]
    return sorted([*older, *live, *newer], key=lambda one: one.timestamp_ms)


def _united(before: Sequence[Event], live: Sequence[Event]) -> Sequence[Event]:
    """Both, where either may lack what the other has: what other processes hear comes here by two
    ways."""
    if not live:
        return before
    since_ms = live[0].timestamp_ms
    at = next((n for n, one in enumerate(before) if one.timestamp_ms >= since_ms), len(before))
    known = {_identity(one) for one in before[at:]}
    newer = [one for one in live if _identity(one) not in known]
    return [*before[:at], *sorted([*before[at:], *newer], key=lambda one: one.timestamp_ms)]


def _identity(of: Event) -> tuple[object, ...]:
    member_id = of.member.member_id if of.member is not None else None
    what = (of.kind, of.generation_id, of.cause, of.detail, of.count)
    return (of.timestamp_ms, member_id, *what)
