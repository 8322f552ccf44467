"""The flight recorder: keeps what happens to groups, in a log of its own (`pykcoord.log.events`).

It is handed events on the loop and writes them on a thread of its own. Where it falls behind, or
the disk takes nothing, it drops events and counts them; no request ever waits for it.
"""

from __future__ import annotations

import json
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

from pykcoord._native import partition_of
from pykcoord.catalogue import Changed, TopicCatalogue
from pykcoord.events import REBALANCE_STARTS, Event
from pykcoord.log.events import EVENTS_TOPIC, EventLimits, EventLog, event_shards

__all__ = ["RecordedFiles", "Recorder", "watch_topics"]

logger = logging.getLogger("pykcoord.recorder")

# How long events wait for others, so that a batch has several.
_LINGER_SECONDS = 0.25
_MAX_EVENTS = 50_000
_MAX_BYTES = 16 << 20
_MAX_NOTES = 1_000
# Of more events in one turn the core may have dropped some.
_MANY = 1_000
_EXPIRE_MS = 60_000
_CLOSE_SECONDS = 5.0

_encoded = json.JSONEncoder(separators=(",", ":")).encode
_STARTS = tuple(kind.encode() for kind in REBALANCE_STARTS)

Recorded = tuple[int, int, bytes, bytes]
"""Shard, time in ms, group id and JSON of an event, as the native node has it."""


class Recorder:
    """Keeps the events of the shards of one process in `directory`.

    `take`, `note` and `shard_loaded` are for the loop's thread and return at once. `now_ms` is the
    clock, `dropped_before` says how many events were dropped before they came here.
    """

    def __init__(
        self,
        directory: Path,
        limits: EventLimits,
        now_ms: Callable[[], int],
        dropped_before: Callable[[], int] = lambda: 0,
    ) -> None:
        self.directory = directory
        self._limits = limits
        self._now_ms = now_ms
        self._dropped_before = dropped_before
        self._changed = threading.Condition()
        self._waiting: deque[Recorded] = deque()
        self._bytes = 0
        self._closed = self._lost = False
        self._idle = True
        # What concerns the whole coordinator goes into a shard with its next event.
        self._notes: list[tuple[int, bytes]] = []
        self._forgotten = 0
        self._noted: dict[int, int] = {}
        self._loaded: dict[int, int] = {}
        self._logs: dict[int, EventLog] = {}
        self._expired_ms = 0
        self._told_before = 0
        self._told: set[int] = set()
        self.not_kept = {"behind": 0, "disk": 0, "group": 0, "shard": 0}
        """Events that are not in the log, or not any more, by why: too many waited, here or before;
        the disk did not take them; a group, or all of a shard, had more than it may have."""
        self.on_taken: Callable[[Sequence[Recorded]], None] = lambda recorded: None
        """Hears of all that is taken, on the loop."""
        self.note("coordinator_started")
        self._thread = threading.Thread(target=self._run, name="pykcoord-recorder", daemon=True)
        self._thread.start()

    def take(self, recorded: Sequence[Recorded]) -> None:
        """Keep these, unless too many wait already."""
        self.on_taken(recorded)
        size = sum(len(one[2]) + len(one[3]) for one in recorded)
        if len(recorded) >= _MANY:
            self._count_before()
        with self._changed:
            is_full = len(self._waiting) + len(recorded) > _MAX_EVENTS
            if is_full or self._bytes + size > _MAX_BYTES or self._closed:
                self._lose(len(recorded))
                return
            was_empty = not self._waiting
            self._waiting.extend(recorded)
            self._bytes += size
            if was_empty:
                self._changed.notify_all()

    def note(self, kind: str, **fields: Any) -> None:
        """Something that concerns the whole coordinator."""
        with self._changed:
            self._add_note(kind, **fields)

    def shard_loaded(self, shard: int) -> None:
        """A shard is led here from now on: told with its next event. The sessions of its members
        have begun anew."""
        with self._changed:
            self._loaded[shard] = self._now_ms()

    def events_of(self, group_id: str) -> list[Event]:
        """What is kept of a group, and of the whole coordinator beside it. For any thread."""
        for shard in event_shards(self.directory):
            if found := _events_of(self.directory, shard, group_id)[0]:
                return found
        return []

    def flush(self, timeout_seconds: float = _CLOSE_SECONDS) -> bool:
        """Wait until all that was taken is written; False: not in time."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting and self._idle, timeout_seconds)

    def lose(self) -> None:
        """The directory is another process's, or may be: nothing is written any more."""
        with self._changed:
            self._lost = self._closed = True
            self._waiting.clear()
            self._changed.notify_all()

    def close(self) -> None:
        """Write what waits, within some seconds, and end."""
        self.note("coordinator_stopped")
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join(_CLOSE_SECONDS)

    def _count_before(self) -> None:
        before = self._dropped_before()
        if (lost := before - self._told_before) > 0:
            self._told_before = before
            self.note("events_dropped", count=lost)
            self.not_kept["behind"] += lost

    def _lose(self, count: int) -> None:
        self.not_kept["behind"] += count
        self._add_note("events_dropped", count=count)

    def _add_note(self, kind: str, **fields: Any) -> None:
        now_ms = self._now_ms()
        self._notes.append((now_ms, _note(kind, now_ms, **fields)))
        if len(self._notes) > _MAX_NOTES:
            del self._notes[0]
            self._forgotten += 1

    def _run(self) -> None:
        while True:
            with self._changed:
                self._idle = True
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if not self._closed:
                    self._changed.wait_for(lambda: self._closed, _LINGER_SECONDS)
                taken, self._waiting = self._waiting, deque()
                self._bytes = 0
                self._idle = False
                is_last = self._closed
            self._write(taken)
            if is_last:
                self._write_last()
                with self._changed:
                    self._idle = True
                    self._changed.notify_all()
                return

    def _write(self, taken: deque[Recorded]) -> None:
        by_shard: dict[int, list[tuple[int, bytes, bytes]]] = {}
        for shard, timestamp_ms, key, value in taken:
            by_shard.setdefault(shard, []).append((timestamp_ms, key, value))
        for shard, records in by_shard.items():
            self._append(shard, records)
        now_ms = self._now_ms()
        if now_ms - self._expired_ms >= _EXPIRE_MS:
            self._expired_ms = now_ms
            for shard, log in list(self._logs.items()):
                self._safely(shard, partial(log.expire, now_ms))
                self._count_over(log)

    def _write_last(self) -> None:
        for shard in list(self._logs):
            self._append(shard, [])

    def _append(self, shard: int, records: list[tuple[int, bytes, bytes]]) -> None:
        with self._changed:
            if self._lost:
                return
            since = self._noted.get(shard, 0)
            notes = [
                (at, b"", value) for at, value in self._notes[max(0, since - self._forgotten) :]
            ]
            self._noted[shard] = self._forgotten + len(self._notes)
            if (loaded_ms := self._loaded.pop(shard, None)) is not None:
                notes.append((loaded_ms, b"", _note("shard_loaded", loaded_ms, shard=shard)))
                notes.sort()

        def append() -> None:
            if shard not in self._logs:
                self._logs[shard] = EventLog(self.directory, shard, self._limits, writes=True)
            self._logs[shard].append([*notes, *records])

        if not self._safely(shard, append):
            self._logs.pop(shard, None)
            with self._changed:
                self.not_kept["disk"] += len(records)
        elif log := self._logs.get(shard):
            self._count_over(log)

    def _count_over(self, log: EventLog) -> None:
        with self._changed:
            self.not_kept["group"] += log.over_group
            self.not_kept["shard"] += log.over_shard
        log.over_group = log.over_shard = 0

    def _safely(self, shard: int, work: Callable[[], None]) -> bool:
        """Whatever is wrong with this log, groups are served on; it is said once for a shard."""
        try:
            work()
        except Exception as error:
            if shard not in self._told:
                self._told.add(shard)
                logger.warning(
                    "%s: events of shard %d are not kept: %s",
                    self.directory,
                    shard,
                    error,
                    extra={"event": "recorder", "shard": shard, "error": str(error)},
                )
            return False
        self._told.discard(shard)
        return True


class RecordedFiles:
    """What is kept in a directory, as the server reads it: of all shards, also those that other
    processes of this machine lead. Raises OSError."""

    topic = EVENTS_TOPIC

    def __init__(self, directory: Path, shards: int) -> None:
        self._directory = directory
        self.shards = shards

    def ends(self, shard: int) -> tuple[int, int]:
        """Its first offset, and that of its next record."""
        log = EventLog(self._directory, shard)
        return log.start_offset, log.end_offset

    def read(self, shard: int, offset: int, max_bytes: int) -> bytes:
        """Whole batches from an offset on."""
        return EventLog(self._directory, shard).read(offset, max_bytes)

    def offset_at(self, shard: int, timestamp_ms: int) -> tuple[int, int] | None:
        """The first record of that time or later: its offset and time."""
        return EventLog(self._directory, shard).offset_at(timestamp_ms)

    def events_of(self, group_id: str) -> tuple[list[Event], int | None]:
        """What is kept of a group and of the whole coordinator beside it, and since when (ms since
        the epoch; None: nothing is)."""
        return _events_of(self._directory, partition_of(group_id, self.shards), group_id)

    def rebalanced_since(self, since_ms: int, most: int = 200_000) -> list[tuple[str, int]]:
        """When groups began to rebalance since then, as far as it is kept: group id and time; the
        newest where there are more than `most`."""
        found: list[tuple[str, int]] = []
        for shard in event_shards(self._directory):
            for record in EventLog(self._directory, shard).records():
                # Most events are others, and taking them apart costs far more than the search.
                if record.timestamp_ms >= since_ms and any(one in record.value for one in _STARTS):
                    event = Event.of_json(json.loads(record.value))
                    if event.kind in REBALANCE_STARTS:
                        found.append((event.group_id, event.timestamp_ms))
        return sorted(found, key=lambda one: one[1])[-most:]


def _events_of(directory: Path, shard: int, group_id: str) -> tuple[list[Event], int | None]:
    """Empty where nothing is kept of the group itself."""
    key = group_id.encode("utf-8", "surrogatepass")
    found, since_ms, has_own = [], None, False
    for record in EventLog(directory, shard).records():
        since_ms = record.timestamp_ms if since_ms is None else since_ms
        if record.key in (key, b""):
            has_own = has_own or record.key == key
            found.append(Event.of_json(json.loads(record.value)))
    return (found if has_own else []), since_ms


def watch_topics(recorder: Recorder, catalogue: TopicCatalogue) -> None:
    """Have changes of topics kept, from now on."""

    def changed(topics: Changed) -> None:
        for name, (before, now) in sorted(topics.items(), key=itemgetter(0)):
            partitions = now.partitions if now is not None else 0
            known = before.partitions if before is not None else 0
            if partitions != known:
                recorder.note(
                    "topics_changed", detail=name, partitions=partitions, partitions_before=known
                )

    catalogue.on_topics(changed)


def _note(kind: str, timestamp_ms: int, **fields: Any) -> bytes:
    value = {"kind": kind, "group_id": "", "timestamp_ms": timestamp_ms, **fields}
    return _encoded(value).encode()
