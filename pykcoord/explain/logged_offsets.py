"""Commits as the log tells them: what went back, what was removed, and how long nothing was
committed of partitions that moved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pykcoord.events import Event

__all__ = ["LoggedOffsets"]

_MOST_PLACES = 2_000_000
_Place = tuple[str, int]


class LoggedOffsets:
    """Of all groups of one partition of the log."""

    def __init__(self) -> None:
        self._committed: dict[str, dict[_Place, tuple[int, int]]] = {}
        self._count = 0
        self._pending: dict[int, list[tuple[str, _Place, int]]] = {}
        self._awaited: dict[str, dict[_Place, int]] = {}
        self._gaps: dict[str, list[int]] = {}
        # Of the batch that is read: what went back by how much, and what was removed.
        self._back: dict[str, list[tuple[_Place, int]]] = {}
        self._removed: dict[str, list[_Place]] = {}
        self._resumed: set[str] = set()

    @property
    def awaits_markers(self) -> bool:
        """Whether a transaction has offsets that are not committed yet."""
        return bool(self._pending)

    def take(
        self, group_id: str, key: Mapping[str, Any], value: Any, at_ms: int, producer_id: int
    ) -> None:
        """An OffsetCommit record."""
        place = (str(key["topic"]), int(key["partition"]))
        if value is None:
            known = self._committed.get(group_id, {}).pop(place, None)
            if known is not None:
                self._count -= 1
                self._removed.setdefault(group_id, []).append(place)
        elif producer_id >= 0:
            waiting = self._pending.setdefault(producer_id, [])
            waiting.append((group_id, place, int(value["offset"])))
        else:
            self._commit(group_id, place, int(value["offset"]), at_ms)

    def ended(self, producer_id: int, at_ms: int, *, is_commit: bool) -> Iterator[Event]:
        """The end of a transaction."""
        for group_id, place, offset in self._pending.pop(producer_id, ()):
            if is_commit:
                self._commit(group_id, place, offset, at_ms)
        yield from self.after_batch(at_ms)

    def moved(self, group_id: str, places: Iterable[_Place]) -> None:
        """These have another owner now: its first commit of each is waited for."""
        committed = self._committed.get(group_id, {})
        for place in places:
            if (known := committed.get(place)) is not None:
                self._awaited.setdefault(group_id, {})[place] = known[1]

    def forget(self, group_id: str) -> None:
        """The group is gone."""
        self._count -= len(self._committed.pop(group_id, ()))
        self._awaited.pop(group_id, None)
        self._gaps.pop(group_id, None)
        self._removed.pop(group_id, None)
        self._resumed.discard(group_id)

    def after_batch(self, at_ms: int) -> Iterator[Event]:
        """What the records of a batch tell together."""
        for group_id, back in self._back.items():
            (topic, partition), records = max(back, key=lambda one: one[1])
            yield Event(
                "offsets_went_back", group_id, -1, None, None, len(back), f"{topic}-{partition}",
                at_ms, None, {"records": records},
            )  # fmt: skip
        for group_id, places in self._removed.items():
            topic, partition = min(places)
            yield Event(
                "offsets_removed", group_id, -1, None, None, len(places), f"{topic}-{partition}",
                at_ms,
            )  # fmt: skip
        for group_id in self._resumed:
            gaps = self._gaps.pop(group_id)
            yield Event(
                "commits_resumed", group_id, -1, None, None, len(gaps), None, at_ms, max(gaps)
            )
        self._back, self._removed, self._resumed = {}, {}, set()

    def _commit(self, group_id: str, place: _Place, offset: int, at_ms: int) -> None:
        committed = self._committed.setdefault(group_id, {})
        known = committed.get(place)
        if known is None and self._count >= _MOST_PLACES:
            return  # of more, nothing is told
        if known is None:
            self._count += 1
        elif offset < known[0]:
            self._back.setdefault(group_id, []).append((place, known[0] - offset))
        committed[place] = (offset, at_ms)
        awaited = self._awaited.get(group_id)
        if awaited and (since_ms := awaited.pop(place, None)) is not None:
            self._gaps.setdefault(group_id, []).append(at_ms - since_ms)
            if not awaited:
                del self._awaited[group_id]
                self._resumed.add(group_id)
