"""Events of watched groups, as their log tells them, from its begin on."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Sequence

from pykcoord._native import ReplayError
from pykcoord.event_stream import EventStream, EventStreams
from pykcoord.events import Event
from pykcoord.explain.logged import LoggedEvents
from pykcoord.log._record_batch import header
from pykcoord.watch.state import WatchedState

__all__ = ["Telling"]

logger = logging.getLogger("pykcoord.watch")

_MOST_EVENTS = 60_000


class Telling:
    """Hears what a state replays; to be made before its partitions begin. On the watcher's loop,
    but for `events`, which any thread may call."""

    def __init__(self, state: WatchedState) -> None:
        self._state = state
        self._logged: dict[int, LoggedEvents] = {}
        self._lock = threading.Lock()
        self._streams = EventStreams()
        # What was told so far, for who begins to listen.
        self._told: deque[Event] = deque(maxlen=_MOST_EVENTS)
        self._newest_ms: dict[int, int] = {}
        # Of a partition that begins anew: until when all was told.
        self._until_ms: dict[int, int] = {}
        self._since_ms: dict[int, int] = {}
        state.heard = self._hear

    def since_ms(self, number: int) -> int | None:
        """The time of the first record of a partition that was read; None: there was none."""
        return self._since_ms.get(number)

    def events(self) -> EventStream:
        """What was told so far, the newest 60,000, and what is told from now on."""
        with self._lock:
            stream = self._streams.add(2 * _MOST_EVENTS)
            for event in self._told:
                stream.put(event)
        return stream

    def end(self) -> None:
        """No further events."""
        self._streams.end(None)

    def _hear(self, number: int, chunk: bytes | None) -> None:
        if chunk is None:
            self._logged[number] = LoggedEvents(lambda topic_id: self._state.names.get(topic_id))
            self._until_ms[number] = self._newest_ms.get(number, -1)
            return
        if number not in self._since_ms:
            self._since_ms[number] = header(chunk, 0).base_timestamp
        try:
            for event in self._logged[number].take(chunk):
                if event.timestamp_ms > self._until_ms[number]:
                    self._tell(number, event)
        except ReplayError as error:
            logger.warning("%s: no events are told of it", error, extra={"event": "telling"})

    def tell(self, events: Sequence[Event]) -> None:
        """Of something that is not in the log."""
        with self._lock:
            for event in events:
                self._told.append(event)
                self._streams.put(event)

    def _tell(self, number: int, event: Event) -> None:
        self._newest_ms[number] = max(event.timestamp_ms, self._newest_ms.get(number, -1))
        with self._lock:
            self._told.append(event)
            self._streams.put(event)
