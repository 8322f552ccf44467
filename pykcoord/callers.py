"""The runtime's transport for callers in process: a future where a server has a connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from pykcoord.errors import ArgumentError, CoordinatorClosedError
from pykcoord.runtime import Runtime
from pykcoord.session import Session

__all__ = ["Callers"]

_LENGTH_BYTES = 4


def _closed() -> Exception:
    return CoordinatorClosedError("the coordinator was closed")


class Callers:
    """Frames in, futures of frames out. On the runtime's loop only; each call has its own ticket,
    so calls do not wait for one another."""

    # No sockets: nothing waits to be sent or to be read.
    unsent_bytes = 0
    is_behind = False

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[int, asyncio.Future[bytes]] = {}
        # What came before the ends of long replies.
        self._parts: dict[int, list[bytes]] = {}
        self._frames: list[tuple[int, Session, bytes]] = []
        self._last_ticket = 0
        self._refusal: Callable[[], Exception] | None = None

    async def send(self, session: Session, frame: bytes) -> bytes:
        """The response frame, without its length. A caller that is cancelled is forgotten.

        Raises ArgumentError for a frame that the coordinator cannot serve.
        """
        if self._refusal is not None:
            raise self._refusal()
        self._last_ticket += 1
        ticket = self._last_ticket
        reply: asyncio.Future[bytes] = self._loop.create_future()
        self._waiting[ticket] = reply
        self._frames.append((ticket, session, frame))
        self._runtime.wake()
        try:
            return await reply
        finally:
            self._parts.pop(ticket, None)
            if self._waiting.pop(ticket, None) is not None:
                self._runtime.abandon(ticket)

    def close(self, error: Callable[[], Exception] = _closed) -> None:
        """Fail what is still waiting, and what comes, each with an `error` of its own."""
        self._refusal = error
        for ticket in list(self._waiting):
            self._fail(ticket, error())

    def take(self) -> list[tuple[int, Session, bytes]]:
        frames, self._frames = self._frames, []
        return frames

    def deliver_parts(self, parts: list[tuple[int, bytes]]) -> None:
        for ticket, part in parts:
            if ticket in self._waiting:
                self._parts.setdefault(ticket, []).append(part)

    def deliver(self, replies: list[tuple[int, bytes]]) -> None:
        for ticket, reply in replies:
            waiting = self._waiting.pop(ticket, None)
            if waiting is not None and not waiting.done():
                parts = self._parts.pop(ticket, None)
                whole = reply if parts is None else b"".join([*parts, reply])
                waiting.set_result(whole[_LENGTH_BYTES:])

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
