"""What was recorded of groups, as pages, `explain` and clients read it: from files of this machine,
or from the objects that nodes of a cluster share.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Protocol, TypeVar

from pykcoord._native import partition_of
from pykcoord.events import REBALANCE_STARTS, Event
from pykcoord.log.events import EVENTS_TOPIC, EventLog, EventRecord, newest_bytes

__all__ = ["EventFiles", "EventPlace", "Reader", "Recorded", "decode_events"]

T = TypeVar("T")

_STARTS = tuple(kind.encode() for kind in REBALANCE_STARTS)


class Reader(Protocol):
    """The events of one shard: see `pykcoord.log.events.EventLog`. Raises OSError."""

    @property
    def start_offset(self) -> int: ...
    @property
    def end_offset(self) -> int: ...
    def read(self, offset: int, max_bytes: int) -> bytes: ...
    def offset_at(self, timestamp_ms: int) -> tuple[int, int] | None: ...
    def records(self, since_ms: int = 0) -> Iterator[EventRecord]: ...


class EventPlace(Protocol):
    """Where events lie. `is_far`: to read them may take long."""

    @property
    def is_far(self) -> bool: ...
    def of(self, shard: int, work: Callable[[Reader], T]) -> T:
        """What `work` makes of the events of a shard. Raises OSError and what the place raises."""

    def mark(self, shard: int) -> object:
        """Another value once more is kept of the shard, at little cost; None: not known."""


class EventFiles:
    """The files in a data directory, of all shards, also those that other processes of this machine
    lead."""

    is_far = False

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def of(self, shard: int, work: Callable[[Reader], T]) -> T:
        """See `EventPlace`."""
        return work(EventLog(self._directory, shard))

    def mark(self, shard: int) -> object:
        """See `EventPlace`."""
        return newest_bytes(self._directory, shard)


class Recorded:
    """What is kept of so many shards in a place, as the server reads it. Raises OSError and what
    the place raises; where `is_far`, each call may take long."""

    topic = EVENTS_TOPIC

    def __init__(self, place: EventPlace, shards: int) -> None:
        self._place = place
        self.is_far = place.is_far
        self.shards = shards

    def mark(self, group_id: str) -> object:
        """Another value once more is kept of the shard of a group, at little cost; None: not
        known."""
        return self._place.mark(partition_of(group_id, self.shards))

    def ends(self, shard: int) -> tuple[int, int]:
        """Its first offset, and that of its next record."""
        return self._place.of(shard, lambda log: (log.start_offset, log.end_offset))

    def read(self, shard: int, offset: int, max_bytes: int) -> bytes:
        """Whole batches from an offset on."""
        return self._place.of(shard, lambda log: log.read(offset, max_bytes))

    def offset_at(self, shard: int, timestamp_ms: int) -> tuple[int, int] | None:
        """The first record of that time or later: its offset and time."""
        return self._place.of(shard, lambda log: log.offset_at(timestamp_ms))

    def events_of(self, group_id: str) -> tuple[list[Event], int | None]:
        """What is kept of a group and of the whole coordinator beside it, and since when (ms since
        the epoch; None: nothing is). Empty where nothing is kept of the group itself."""
        shard = partition_of(group_id, self.shards)
        return self._place.of(shard, lambda log: _events_of(log.records(), group_id))

    def rebalanced_since(self, since_ms: int, most: int = 200_000) -> list[tuple[str, int]]:
        """When groups began to rebalance since then, as far as it is kept: group id and time; the
        newest where there are more than `most`."""
        found: list[tuple[str, int]] = []
        for shard in range(self.shards):
            found += self._place.of(shard, lambda log: _rebalanced(log.records(since_ms), since_ms))
        return sorted(found, key=lambda one: one[1])[-most:]


def decode_events(records: Iterable[EventRecord]) -> Iterator[Event]:
    """The events that records hold; what cannot be read is left out."""
    for record in records:
        try:
            event = Event.of_json(json.loads(record.value))
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
        yield event


def _events_of(records: Iterator[EventRecord], group_id: str) -> tuple[list[Event], int | None]:
    key = group_id.encode("utf-8", "surrogatepass")
    found: list[EventRecord] = []
    since_ms, has_own = None, False
    for record in records:
        since_ms = record.timestamp_ms if since_ms is None else since_ms
        if record.key in (key, b""):
            has_own = has_own or record.key == key
            found.append(record)
    return list(decode_events(found if has_own else [])), since_ms


def _rebalanced(records: Iterator[EventRecord], since_ms: int) -> list[tuple[str, int]]:
    # Most events are others, and taking them apart costs far more than the search.
    likely = (
        record
        for record in records
        if record.timestamp_ms >= since_ms and any(one in record.value for one in _STARTS)
    )
    return [
        (event.group_id, event.timestamp_ms)
        for event in decode_events(likely)
        if event.kind in REBALANCE_STARTS
    ]
