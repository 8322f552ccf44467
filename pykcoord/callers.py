"""The runtime's transport for callers in process: a future where a server has a connection."""

from __future__ import annotations

import asyncio

from pykcoord.errors import ArgumentError, CoordinatorClosedError
from pykcoord.runtime import Runtime

__all__ = ["Callers"]

_LENGTH_BYTES = 4


class Callers:
    """Frames in, futures of frames out. On the runtime's loop only; each call has its own ticket,
    so calls do not wait for one another."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[int, asyncio.Future[bytes]] = {}
        self._frames: list[tuple[int, str, bytes]] = []
        self._last_ticket = 0
        self._closed = False

    async def send(self, client_host: str, frame: bytes) -> bytes:
        """The response frame, without its length. A caller that is cancelled is forgotten.

        Raises ArgumentError for a frame that the coordinator cannot serve.
        """
        if self._closed:
            raise CoordinatorClosedError("the coordinator was closed")
        self._last_ticket += 1
        ticket = self._last_ticket
        reply: asyncio.Future[bytes] = self._loop.create_future()
        self._waiting[ticket] = reply
        self._frames.append((ticket, client_host, frame))
        self._runtime.wake()
        try:
            return await reply
        finally:
            if self._waiting.pop(ticket, None) is not None:
                self._runtime.abandon(ticket)

    def close(self) -> None:
        """Fail what is still waiting."""
        self._closed = True
        for ticket in list(self._waiting):
            self._fail(ticket, CoordinatorClosedError("the coordinator was closed"))

    def take(self) -> list[tuple[int, str, bytes]]:
        frames, self._frames = self._frames, []
        return frames

    def deliver(self, replies: list[tuple[int, bytes]]) -> None:
        for ticket, reply in replies:
            waiting = self._waiting.pop(ticket, None)
            if waiting is not None and not waiting.done():
                waiting.set_result(reply[_LENGTH_BYTES:])

    def foreign(self, tickets: list[int]) -> None:
        for ticket in tickets:
            reason = "not an API of the group coordinator; `pykcoord serve` answers those"
            self._fail(ticket, ArgumentError("request", reason))

    def refuse(self, ticket: int, reason: str) -> None:
        self._fail(ticket, ArgumentError("request", reason))

    def _fail(self, ticket: int, error: Exception) -> None:
        waiting = self._waiting.pop(ticket, None)
        if waiting is not None and not waiting.done():
            waiting.set_exception(error)
