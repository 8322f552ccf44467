"""Events for a reader of its own pace: bounded, from any thread or loop."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections import deque
from collections.abc import Callable

from pykcoord import _arguments as arguments
from pykcoord.events import Event

__all__ = ["EventStream", "EventStreams"]


class EventStream:
    """What happens to groups from now on, as an iterator, also an async one. Made by
    `Coordinator.events`.

    It ends when the coordinator is closed or `close` is called, after what came before; if the
    coordinator failed, the error is raised then. A context manager that closes it.
    """

    def __init__(self, limit: int, forget: Callable[[EventStream], None]) -> None:
        self._limit = arguments.integer("limit", limit, range(1, sys.maxsize))
        self._forget = forget
        self._changed = threading.Condition()
        self._events: deque[Event] = deque()
        self._sleepers: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        self._ended = False
        self._failure: BaseException | None = None
        self.dropped = 0
        """Events that were lost, the oldest first, because `limit` of them waited already."""

    def put(self, event: Event) -> None:
        """One more event; never blocks. The coordinator calls it."""
        with self._changed:
            if self._ended:
                return
            if len(self._events) == self._limit:
                self._events.popleft()
                self.dropped += 1
            self._events.append(event)
        self._wake()

    def end(self, failure: BaseException | None = None) -> None:
        """No further events. The coordinator calls it."""
        with self._changed:
            if not self._ended:
                self._ended, self._failure = True, failure
        self._wake()

    def lose(self, failure: BaseException) -> None:
        """In a child of fork: another thread may have held the lock, and no event will come."""
        self._changed = threading.Condition()
        self._events.clear()
        self._sleepers.clear()
        self._ended, self._failure = True, failure

    def close(self) -> None:
        """Want no further events."""
        self._forget(self)
        self.end()

    def __enter__(self) -> EventStream:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def __iter__(self) -> EventStream:
        return self

    def __next__(self) -> Event:
        """Blocks until there is an event."""
        with self._changed:
            self._changed.wait_for(lambda: self._events or self._ended)
            if self._events:
                return self._events.popleft()
        raise self._failure or StopIteration

    def __aiter__(self) -> EventStream:
        return self

    async def __anext__(self) -> Event:
        loop = asyncio.get_running_loop()
        while True:
            with self._changed:
                if self._events:
                    return self._events.popleft()
                if self._ended:
                    raise self._failure or StopAsyncIteration
                wanted: asyncio.Future[None] = loop.create_future()
                self._sleepers.append((loop, wanted))
            try:
                await wanted
            except asyncio.CancelledError:
                self._give_up(wanted)
                raise

    def _give_up(self, wanted: asyncio.Future[None]) -> None:
        with self._changed:
            self._sleepers = [one for one in self._sleepers if one[1] is not wanted]

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()
            sleepers, self._sleepers = self._sleepers, []
        for loop, wanted in sleepers:
            with contextlib.suppress(RuntimeError):  # a loop that was closed meanwhile
                loop.call_soon_threadsafe(_settle, wanted)


class EventStreams:
    """The streams of one coordinator. Any thread may call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: tuple[EventStream, ...] = ()

    def add(self, limit: int) -> EventStream:
        """One more. Raises ArgumentError where `limit` is no number of events."""
        stream = EventStream(limit, self._forget)
        with self._lock:
            self._open = (*self._open, stream)
        return stream

    def __bool__(self) -> bool:
        return bool(self._open)

    def put(self, event: Event) -> None:
        """An event for all of them."""
        for stream in self._open:
            stream.put(event)

    def end(self, failure: BaseException | None) -> None:
        """All end, once what they have is read."""
        for stream in self._open:
            stream.end(failure)

    def lose(self, failure: BaseException) -> None:
        """The same as for one of them."""
        self._lock = threading.Lock()
        for stream in self._open:
            stream.lose(failure)

    def _forget(self, stream: EventStream) -> None:
        with self._lock:
            self._open = tuple(one for one in self._open if one is not stream)


def _settle(wanted: asyncio.Future[None]) -> None:
    if not wanted.done():
        wanted.set_result(None)
