"""How far groups are behind, in records and in time, with who owns each partition now. Pure.

A lag is the end of a partition less what is committed. In time it is since when the end is beyond
what is committed, by samples of ends; who owns a partition is asked of the coordinator's state each
time, and never remembered.
"""

from __future__ import annotations

import fnmatch
import heapq
from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

__all__ = [
    "Behind",
    "EndTimes",
    "GroupLag",
    "LagHistory",
    "LagLimits",
    "Lags",
    "Owner",
    "PartitionLag",
    "Stalls",
    "matching",
    "widest",
]

_MOST_PLACES = 200_000
_MOST_SAMPLES = 48
# A partition is told of when nothing was committed for so long while its lag grew, and again when
# the lag has doubled.
_STILL_MS = 60_000
# What nobody looked at for so long is gone, with its group or its offset.
_GONE_MS = 3_600_000
# Of the history of lag: partitions, samples of each, and the least time between two.
_MOST_HISTORIES = 5_000
_MOST_LAGS = 120
_BETWEEN_MS = 10_000

Place = tuple[str, int]
"""A topic and a partition."""
GroupPlace = tuple[str, str, int]
"""A group, a topic and a partition."""


class Behind(NamedTuple):
    """For how long the end of a partition has been beyond what is committed: `ms`, None where no
    end was known yet, and at least so long where `is_at_least`."""

    ms: int | None
    is_at_least: bool


class Owner(NamedTuple):
    """The member that owns a partition. `instance_id` is None unless it is static."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str


class PartitionLag(NamedTuple):
    """One partition of a topic: `lag` in records, and for how long it has been behind: `behind_ms`,
    None where no end was known yet, and at least so long where `is_at_least`. `owner` None: nobody
    owns it."""

    topic: str
    partition: int
    lag: int
    behind_ms: int | None
    is_at_least: bool
    owner: Owner | None


class GroupLag(NamedTuple):
    """A group, and its partitions whose ends are known."""

    group_id: str
    partitions: Sequence[PartitionLag]

    @property
    def lag(self) -> int:
        """Records, of all its partitions."""
        return sum(one.lag for one in self.partitions)


class Lags(NamedTuple):
    """The groups that are furthest behind, and how many others there are."""

    groups: Sequence[GroupLag]
    left_out: int


@dataclass(frozen=True, slots=True)
class LagLimits:
    """How much metrics tell: of so many `groups`, those with most lag among those that match one of
    the patterns `include` (`*` and `?`), and `series` of partitions and of members, likewise."""

    groups: int = 100
    series: int = 1_000
    include: tuple[str, ...] = ("*",)


class EndTimes:
    """Samples of where partitions ended when; of each the newest in full, older ones thinned."""

    def __init__(self) -> None:
        self._known: dict[Place, _Samples] = {}

    def __len__(self) -> int:
        return len(self._known)

    def put(self, place: Place, end: int, at_ms: int) -> None:
        """The partition ended there then (ms since the epoch). An end below the newest begins
        anew: the topic was made again."""
        samples = self._known.get(place)
        if samples is None:
            if len(self._known) >= _MOST_PLACES:
                return
            samples = self._known[place] = _Samples()
        samples.put(end, at_ms)

    def seed(self, place: Place, offset: int, at_ms: int) -> None:
        """Of a partition that is not known: it ended there or beyond then, since somebody had
        committed that."""
        if place not in self._known and at_ms >= 0:
            self.put(place, offset, at_ms)
            if (samples := self._known.get(place)) is not None:
                samples.is_bound = True

    def places(self) -> list[Place]:
        """All that are known."""
        return list(self._known)

    def forget(self, place: Place) -> None:
        """Of one of them."""
        self._known.pop(place, None)

    def keep(self, places: Iterable[Place]) -> None:
        """Forget all others."""
        wanted = set(places)
        for gone in self._known.keys() - wanted:
            del self._known[gone]

    def behind_ms(self, place: Place, offset: int, now_ms: int) -> tuple[int | None, bool]:
        """Since when the end is beyond `offset`, and whether it may be longer. 0 at the end; None:
        no end is known."""
        samples = self._known.get(place)
        return samples.behind_ms(offset, now_ms) if samples is not None else (None, False)


class _Samples:
    """Ends, ascending, each with the first and the last time at which it was seen."""

    __slots__ = ("ends", "firsts", "is_bound", "lasts")

    def __init__(self) -> None:
        self.ends, self.firsts, self.lasts = array("q"), array("q"), array("q")
        self.is_bound = False
        """The first sample is a commit: the end may have been beyond it."""

    def put(self, end: int, at_ms: int) -> None:
        if self.ends and end < self.ends[-1]:
            self.__init__()  # type: ignore[misc]
        if self.ends and (end == self.ends[-1] or at_ms <= self.lasts[-1]):
            self.lasts[-1] = max(self.lasts[-1], at_ms)
            return
        for values, value in ((self.ends, end), (self.firsts, at_ms), (self.lasts, at_ms)):
            values.append(value)
        if len(self.ends) > _MOST_SAMPLES:
            _thin(_MOST_SAMPLES, self.ends, self.firsts, self.lasts)

    def behind_ms(self, offset: int, now_ms: int) -> tuple[int | None, bool]:
        at = bisect_right(self.ends, offset)
        if at == len(self.ends):
            return 0, False
        if at == 0 or (at == 1 and self.is_bound):
            return max(0, now_ms - self.firsts[at]), True
        before, after = self.ends[at - 1], self.ends[at]
        start, end = self.lasts[at - 1], self.firsts[at]
        passed = start + (end - start) * (offset - before) // (after - before)
        return max(0, now_ms - passed), False


def _thin(most: int, *columns: array[int]) -> None:
    """Every second of the older half goes: the past becomes coarse, and is never cut off."""
    for at in range(most // 2, 0, -2):
        for values in columns:
            del values[at]


class Stalls:
    """Finds partitions that fall behind while nothing is committed of them. `look` is told what is
    committed now and then."""

    def __init__(self) -> None:
        self._known: dict[GroupPlace, _Still] = {}
        self._swept_ms = 0

    def look(self, place: GroupPlace, offset: int, lag: int, now_ms: int) -> int | None:
        """For how long nothing was committed, where that is to be told; then `told` is called, if
        it was."""
        still = self._known.get(place)
        if still is None or still.offset != offset or lag <= 0:
            self._known.pop(place, None)
            if lag > 0 and self._has_room(now_ms):
                self._known[place] = _Still(offset, lag, now_ms)
            return None
        still.seen_ms = now_ms
        still_ms = now_ms - still.since_ms
        is_late = still_ms >= _STILL_MS and lag > max(still.lag, 2 * still.told_lag)
        return still_ms if is_late else None

    def told(self, place: GroupPlace, lag: int) -> None:
        """It was told of: the next time when the lag has doubled."""
        if (still := self._known.get(place)) is not None:
            still.told_lag = lag

    def clear(self) -> None:
        """Forget all."""
        self._known.clear()

    def _has_room(self, now_ms: int) -> bool:
        if len(self._known) >= _MOST_PLACES and now_ms - self._swept_ms >= _STILL_MS:
            self._swept_ms = now_ms
            seen = self._known.items()
            self._known = {at: of for at, of in seen if of.seen_ms > now_ms - _GONE_MS}
        return len(self._known) < _MOST_PLACES


class _Still:
    """A partition that is where it was: since when, how far behind it was then, and when it was
    looked at."""

    __slots__ = ("lag", "offset", "seen_ms", "since_ms", "told_lag")

    def __init__(self, offset: int, lag: int, since_ms: int) -> None:
        self.offset, self.lag, self.since_ms = offset, lag, since_ms
        self.seen_ms = since_ms
        self.told_lag = 0


class LagHistory:
    """The lag of partitions over time: some hours of each, the older the coarser. Of more than
    5,000 partitions those stay that were sampled last."""

    def __init__(self) -> None:
        self._known: OrderedDict[GroupPlace, tuple[array[int], array[int]]] = OrderedDict()

    def put(self, place: GroupPlace, lag: int, at_ms: int) -> None:
        """It was so far behind then (ms since the epoch). Within ten seconds of the last sample
        nothing is noted."""
        times, lags = self._known.setdefault(place, (array("q"), array("q")))
        self._known.move_to_end(place)
        if times and at_ms < times[-1] + _BETWEEN_MS:
            return
        times.append(at_ms)
        lags.append(lag)
        if len(times) > _MOST_LAGS:
            _thin(_MOST_LAGS, times, lags)
        if len(self._known) > _MOST_HISTORIES:
            self._known.popitem(last=False)

    def of(self, group_id: str) -> dict[Place, list[tuple[int, int]]]:
        """The samples of a group by partition: time and lag, the oldest first."""
        return {
            place[1:]: list(zip(*of, strict=True))
            for place, of in self._known.items()
            if place[0] == group_id
        }


def widest(groups: Iterable[tuple[str, int]], most: int) -> tuple[list[str], int]:
    """The `most` of (group id, lag) that are furthest behind, and how many others there are."""
    every = list(groups)
    found = heapq.nsmallest(most, every, key=lambda one: (-one[1], one[0]))
    return [group_id for group_id, _ in found], len(every) - len(found)


def matching(patterns: Iterable[str]) -> Callable[[str], bool]:
    """Whether a group's id is of one of the patterns: `*` is any characters, `?` one."""
    # Brackets are letters like others: fnmatch has sets of letters in them.
    wanted = tuple(one.replace("[", "[[]") for one in patterns)
    if wanted in ((), ("*",)):
        return lambda group_id: True
    return lambda group_id: any(fnmatch.fnmatchcase(group_id, one) for one in wanted)
