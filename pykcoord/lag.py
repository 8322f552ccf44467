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
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

__all__ = [
    "EndTimes",
    "GroupLag",
    "LagLimits",
    "Lags",
    "Owner",
    "PartitionLag",
    "matching",
    "widest",
]

_MOST_PLACES = 200_000
_MOST_SAMPLES = 48

Place = tuple[str, int]


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
            # Every second of the older half goes: the past becomes coarse, and is never cut off.
            for at in range(_MOST_SAMPLES // 2, 0, -2):
                del self.ends[at], self.firsts[at], self.lasts[at]

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
