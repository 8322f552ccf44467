"""Who believed to own what, and when: told by the members themselves, so alike for all schemes."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import NamedTuple

from pykcoord.clock import monotonic_seconds
from pykcoord.consumer_protocol import TopicPartition

Span = tuple[float, float, str]


class Told(NamedTuple):
    """A member owns just these from `at` (monotonic seconds) on."""

    at: float
    member: str
    partitions: frozenset[TopicPartition]


class Beliefs:
    """What members told. Thread-safe."""

    def __init__(self) -> None:
        self._told: list[Told] = []
        self._lock = threading.Lock()

    def tell(self, member: str, partitions: Iterable[tuple[str, int]]) -> None:
        """`member` owns just these from now on."""
        owned = frozenset(TopicPartition(*one) for one in partitions)
        with self._lock:
            self._told.append(Told(monotonic_seconds(), member, owned))

    def told(self) -> list[Told]:
        """All so far."""
        with self._lock:
            return list(self._told)

    def now(self) -> dict[str, frozenset[TopicPartition]]:
        """What each member owns at present."""
        return {one.member: one.partitions for one in self.told()}

    def last_at(self) -> float:
        """When anything was told last."""
        return self.told()[-1].at

    def spans(
        self, since: float, until: float
    ) -> dict[TopicPartition, list[tuple[float, float, str]]]:
        """Partition to spans (begin, end, member), in seconds after `since`, cut at both ends."""
        open_: dict[tuple[str, TopicPartition], float] = {}
        found: dict[TopicPartition, list[Span]] = {}

        def close(member: str, one: TopicPartition, at: float) -> None:
            begin = max(open_.pop((member, one)), since)
            if min(at, until) > begin:
                found.setdefault(one, []).append((begin - since, min(at, until) - since, member))

        for at, member, owned in self.told():
            for key in [key for key in open_ if key[0] == member and key[1] not in owned]:
                close(*key, at)
            for one in owned:
                open_.setdefault((member, one), at)
        for member, one in list(open_):
            close(member, one, until)
        return {one: sorted(spans) for one, spans in sorted(found.items())}

    def unowned(
        self, partitions: Iterable[TopicPartition], since: float, until: float
    ) -> tuple[float, int, int]:
        """Partition-seconds that nobody owned, how many partitions were without an owner at some
        time, and how many still are at the end."""
        spans = self.spans(since, until)
        total, touched, left = 0.0, 0, 0
        for one in partitions:
            at, lost = 0.0, 0.0
            for begin, end, _ in spans.get(one, []):
                lost += max(0.0, begin - at)
                at = max(at, end)
            rest = max(0.0, until - since - at)
            lost += rest
            total += lost
            touched += lost > 0.001
            left += rest > 0.001
        return total, touched, left

    def owned_twice(self, since: float, until: float) -> float:
        """Partition-seconds that two members believed to own."""
        total = 0.0
        for spans in self.spans(since, until).values():
            at = 0.0
            for begin, end, _ in spans:
                total += max(0.0, min(at, end) - begin)
                at = max(at, end)
        return total
