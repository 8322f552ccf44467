"""The flight recorder: keeps what happens to groups, in a place of its own
(`pykcoord.log.event_keeping`).

It is handed events on the loop and writes them on a thread of its own. Where it falls behind, or
the place takes nothing, it drops events and counts them; no request ever waits for it.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from pykcoord._native import EventBatch, record_areas
from pykcoord.catalogue import Changed, TopicCatalogue
from pykcoord.log.event_keeping import EventKeeper
from pykcoord.log.events import Kept, Records

__all__ = ["Recorder", "watch_topics"]

logger = logging.getLogger("pykcoord.recorder")

_MAX_EVENTS = 50_000
_MAX_BYTES = 16 << 20
_MAX_NOTES = 1_000
# Of more events in one turn the core may have dropped some.
_MANY = 1_000
_EXPIRE_MS = 60_000
_CLOSE_SECONDS = 5.0
_DROPPED = "events_dropped"

_encoded = json.JSONEncoder(separators=(",", ":")).encode


class Recorder:
    """Keeps the events of the shards of one process by a `keeper`.

    `take`, `note` and `shard_loaded` are for the loop's thread and return at once. `now_ms` is the
    clock, `dropped_before` says how many events were dropped before they came here.
    """

    def __init__(
        self,
        keeper: EventKeeper,
        now_ms: Callable[[], int],
        dropped_before: Callable[[], int] = lambda: 0,
    ) -> None:
        self._keeper = keeper
        self._now_ms = now_ms
        self._dropped_before = dropped_before
        self._changed = threading.Condition()
        self._waiting: list[EventBatch] = []
        self._count = self._bytes = 0
        self._closed = self._lost = False
        # Of what was taken and of what is written, each call of `take` counts one.
        self._taken = self._done = 0
        # What concerns the whole coordinator goes into a shard with its next event.
        self._notes: list[tuple[int, bytes]] = []
        self._forgotten = 0
        self._noted: dict[int, int] = {}
        self._loaded: dict[int, int] = {}
        self._led_since: dict[int, int] = {}
        self._expired_ms = 0
        self._told_before = 0
        self._told: set[int] = set()
        self._written: set[int] = set()
        # Of each shard whose place takes nothing: since when, and how many events.
        self._unkept: dict[int, tuple[int, int]] = {}
        self.not_kept = {"behind": 0, "disk": 0, "group": 0, "shard": 0}
        """Events that are not in the log, or not any more, by why: too many waited, here or before;
        the disk did not take them; a group, or all of a shard, had more than it may have."""
        self.on_taken: Callable[[Sequence[int]], None] = lambda shards: None
        """Hears of which shards something is taken, on the loop."""
        self.note("coordinator_started")
        self._thread = threading.Thread(target=self._run, name="pykcoord-recorder", daemon=True)
        self._thread.start()

    def take(self, recorded: EventBatch) -> None:
        """Keep these, unless too many wait already."""
        self.on_taken(recorded.shards)
        count, size = len(recorded), recorded.size_bytes
        if count >= _MANY:
            self._count_before()
        with self._changed:
            is_full = self._count + count > _MAX_EVENTS
            if is_full or self._bytes + size > _MAX_BYTES or self._closed:
                self._lose(count)
                return
            was_empty = not self._waiting
            self._waiting.append(recorded)
            self._taken += 1
            self._count += count
            self._bytes += size
            if was_empty:
                self._changed.notify_all()

    def note(self, kind: str, **fields: Any) -> None:
        """Something that concerns the whole coordinator."""
        with self._changed:
            self._add_note(kind, **fields)

    def shard_loaded(self, shard: int, epoch: int) -> None:
        """A shard is led here from now on, in that epoch: told with its next event. The sessions of
        its members have begun anew."""
        self._keeper.leads(shard, epoch)
        with self._changed:
            self._loaded[shard] = self._led_since[shard] = self._now_ms()

    def flush(self, timeout_seconds: float = _CLOSE_SECONDS) -> bool:
        """Wait until all that was taken before is written, or given up; False: not in time."""
        with self._changed:
            taken = self._taken
            return self._changed.wait_for(lambda: self._done >= taken, timeout_seconds)

    def lose(self) -> None:
        """The directory is another process's, or may be: nothing is written any more."""
        with self._changed:
            self._lost = self._closed = True
            self._waiting.clear()
            self._done = self._taken
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
            self.note(_DROPPED, count=lost)
            self.not_kept["behind"] += lost

    def _lose(self, count: int) -> None:
        self.not_kept["behind"] += count
        self._add_note(_DROPPED, count=count)

    def _add_note(self, kind: str, **fields: Any) -> None:
        now_ms = self._now_ms()
        self._notes.append((now_ms, _note(kind, now_ms, **fields)))
        if len(self._notes) > _MAX_NOTES:
            del self._notes[0]
            self._forgotten += 1

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if not self._closed:
                    self._changed.wait_for(lambda: self._closed, self._keeper.linger_seconds)
                waiting, self._waiting = self._waiting, []
                self._count = self._bytes = 0
                taken, is_last = self._taken, self._closed
            self._write(waiting)
            with self._changed:
                self._done = max(self._done, taken)
                self._changed.notify_all()
            if is_last:
                self._write_last()
                return

    def _write(self, taken: list[EventBatch]) -> None:
        self._append({one[0]: Records(*one[1:]) for one in record_areas(taken)})
        now_ms = self._now_ms()
        if now_ms - self._expired_ms >= _EXPIRE_MS:
            self._expired_ms = now_ms
            self._tell(self._keeper.expire(now_ms))
            self._count_cut()

    def _write_last(self) -> None:
        # The next process that keeps events of a shared place says when it began.
        if not self._keeper.is_shared:
            self._append(dict.fromkeys(self._written))
        self._keeper.close()

    def _append(self, by_shard: Mapping[int, Records | None]) -> None:
        with self._changed:
            if self._lost or not by_shard:
                return
            told: dict[int, list[Kept | Records]] = {}
            before = {at: (self._noted.get(at, 0), self._loaded.get(at)) for at in by_shard}
            for shard, records in by_shard.items():
                told[shard] = [*self._notes_for(shard)]
                if records is not None:
                    told[shard].append(records)
        failed = self._keeper.append(told)
        self._written |= told.keys()
        self._tell(failed)
        self._told -= told.keys() - failed.keys()
        with self._changed:
            for shard in told.keys() - failed.keys():
                self._unkept.pop(shard, None)
            for shard in failed:
                self._give_up(shard, by_shard[shard], *before[shard])
        self._count_cut()

    def _give_up(
        self, shard: int, records: Records | None, noted: int, loaded_ms: int | None
    ) -> None:
        """The place did not take them. What concerns the whole coordinator, and that they are
        missing, is told with the next events of this shard."""
        self._noted[shard] = noted
        if loaded_ms is not None:
            self._loaded.setdefault(shard, loaded_ms)
        if records is not None:
            self.not_kept["disk"] += records.number
            since_ms, count = self._unkept.get(shard, (records.base_ms, 0))
            self._unkept[shard] = since_ms, count + records.number

    def _notes_for(self, shard: int) -> list[Kept]:
        """What concerns the whole coordinator, and was not told with an event of this shard yet."""
        since = self._noted.get(shard, 0)
        notes = [(at, b"", value) for at, value in self._notes[max(0, since - self._forgotten) :]]
        self._noted[shard] = self._forgotten + len(self._notes)
        if self._keeper.is_shared:  # before that others kept what was of this shard
            led_since = self._led_since.get(shard, 0)
            notes = [one for one in notes if one[0] >= led_since]
        if (loaded_ms := self._loaded.pop(shard, None)) is not None:
            notes.append((loaded_ms, b"", _note("shard_loaded", loaded_ms, shard=shard)))
        if (unkept := self._unkept.get(shard)) is not None:
            since_ms, count = unkept
            notes.append((since_ms, b"", _note(_DROPPED, since_ms, count=count)))
        return sorted(notes, key=itemgetter(0))

    def _count_cut(self) -> None:
        of_group, of_shard = self._keeper.take_cut()
        with self._changed:
            self.not_kept["group"] += of_group
            self.not_kept["shard"] += of_shard

    def _tell(self, failed: dict[int, Exception]) -> None:
        """Whatever is wrong with these logs, groups are served on; it is said once for a shard. A
        shared store says itself what is wrong with it."""
        for shard, error in failed.items():
            if self._keeper.is_shared or shard in self._told:
                continue
            self._told.add(shard)
            logger.warning(
                "%s: events of shard %d are not kept: %s",
                self._keeper.name,
                shard,
                error,
                extra={"event": "recorder", "shard": shard, "error": str(error)},
            )


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
