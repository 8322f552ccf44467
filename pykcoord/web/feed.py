"""What changed, for browsers that watch: server-sent events, coalesced and bounded for each."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from pykcoord.events import Event

__all__ = ["Feed", "FeedResponse", "TooManyError"]

MOST_STREAMS = 500
# Without a change, so often; and so long after a change for others to come with it.
_TICK_SECONDS = 1.0
_TOGETHER_SECONDS = 0.1
# Groups that are named in one message; of more, all are to be looked at.
_MOST_NAMED = 200
# For one message to leave.
_SEND_SECONDS = 20.0


class TooManyError(Exception):
    """No further stream is opened."""


class _Watcher:
    def __init__(self, group_id: str | None) -> None:
        self.group_id = group_id
        self.changed: set[str] = set()
        self.is_all = False
        self.awake = asyncio.Event()

    def hear(self, group_id: str) -> None:
        if self.group_id is not None and group_id != self.group_id:
            return
        if len(self.changed) < _MOST_NAMED:
            self.changed.add(group_id)
        else:
            self.is_all = True
        self.awake.set()

    def take(self) -> dict[str, Any]:
        taken = {"changed": sorted(self.changed), "all": self.is_all}
        self.changed, self.is_all = set(), False
        self.awake.clear()
        return taken


class Feed:
    """All browsers that watch. On the console's loop only."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._watchers: set[_Watcher] = set()
        self._ended = False

    def __len__(self) -> int:
        return len(self._watchers)

    def hear(self, event: Event) -> None:
        """Something happened to a group."""
        for watcher in self._watchers:
            watcher.hear(event.group_id)

    def change(self, group_id: str) -> None:
        """Somebody changed a group here."""
        for watcher in self._watchers:
            watcher.hear(group_id)

    def watched(self) -> set[str]:
        """The groups that browsers watch, each by itself."""
        return {one.group_id for one in self._watchers if one.group_id is not None}

    def end(self) -> None:
        """All streams end."""
        self._ended = True
        for watcher in self._watchers:
            watcher.awake.set()

    def response(self, group_id: str | None) -> FeedResponse:
        """A stream of what changes, of one group or of all. Raises TooManyError."""
        if len(self._watchers) >= MOST_STREAMS or self._ended:
            raise TooManyError
        return FeedResponse(self._messages(group_id))

    async def _messages(self, group_id: str | None) -> AsyncIterator[bytes]:
        with self._watching(group_id) as watcher:
            yield b"retry: 1000\n\n" + self._tick(watcher)
            while not self._ended:
                with suppress(TimeoutError):
                    async with asyncio.timeout(_TICK_SECONDS):
                        await watcher.awake.wait()
                    await asyncio.sleep(_TOGETHER_SECONDS)
                if not self._ended:
                    yield self._tick(watcher)

    def _tick(self, watcher: _Watcher) -> bytes:
        data = json.dumps({**watcher.take(), "at_ms": self._now_ms()})
        return f"event: tick\ndata: {data}\n\n".encode()

    @contextmanager
    def _watching(self, group_id: str | None) -> Iterator[_Watcher]:
        watcher = _Watcher(group_id)
        self._watchers.add(watcher)
        try:
            yield watcher
        finally:
            self._watchers.discard(watcher)


class FeedResponse(Response):
    """Sends messages until they end, the browser is gone, or it takes none for a while."""

    def __init__(self, messages: AsyncIterator[bytes]) -> None:
        super().__init__(media_type="text/event-stream")
        del self.headers["content-length"]
        self.headers["cache-control"] = "no-store"
        self._messages = messages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.ensure_future(self._send(send))
        leaving = asyncio.ensure_future(_gone(receive))
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, leaving):
                task.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)
            await self._messages.aclose()  # type: ignore[attr-defined]

    async def _send(self, send: Send) -> None:
        await send(
            {
                "type": "http.response.start",
                "status": self.status_code,
                "headers": self.raw_headers,
            }
        )
        async for message in self._messages:
            async with asyncio.timeout(_SEND_SECONDS):
                await send({"type": "http.response.body", "body": message, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
