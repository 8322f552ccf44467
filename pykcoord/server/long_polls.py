"""Answers that are held back: a Fetch that finds nothing is answered when its time is up.

A client says how long that is, for days if it likes: what it has held back must not take the memory
that others' answers need.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from pykcoord.server.budget import Budget

# Of the memory of all answers, long ones that are held back take one part in so many at most. Small
# ones are always held, as they are always given.
_SHARE = 2
SMALL_ANSWER_BYTES = 64 * 1024


class _Poll(NamedTuple):
    timer: asyncio.TimerHandle
    reply: bytes | bytearray
    taken: int


class LongPolls:
    """By ticket. A long answer that is held back counts as one in flight: it is taken of
    `answers`. Where many are, the next one is given at once. `free` frees one that nobody wants."""

    def __init__(
        self,
        reply: Callable[[int, bytes | bytearray], None],
        answers: Budget,
        free: Callable[[bytes | bytearray], object] = lambda buffer: None,
    ) -> None:
        self._reply = reply
        self._answers = answers
        self._free = free
        self._polls: dict[int, _Poll] = {}
        self._taken = 0

    def __contains__(self, ticket: int) -> bool:
        return ticket in self._polls

    def __len__(self) -> int:
        return len(self._polls)

    def give(self, ticket: int, reply: bytes | bytearray, wait_ms: int) -> None:
        """Reply in `wait_ms`; 0: now."""
        size = len(reply) if len(reply) > SMALL_ANSWER_BYTES else 0
        has_room = size == 0 or self._taken + size <= self._answers.most // _SHARE
        if wait_ms == 0 or not has_room:
            self._reply(ticket, reply)
            return
        timer = asyncio.get_running_loop().call_later(wait_ms / 1000, self._end, ticket)
        self._count(size)
        self._polls[ticket] = _Poll(timer, reply, size)

    def abandon(self, ticket: int) -> None:
        """The client is gone."""
        poll = self._polls.pop(ticket, None)
        if poll is not None:
            poll.timer.cancel()
            self._count(-poll.taken)
            self._free(poll.reply)

    def finish(self) -> None:
        """Answer all now."""
        for ticket in list(self._polls):
            self._polls[ticket].timer.cancel()
            self._end(ticket)

    def _end(self, ticket: int) -> None:
        poll = self._polls.pop(ticket)
        self._count(-poll.taken)
        self._reply(ticket, poll.reply)

    def _count(self, size: int) -> None:
        self._taken += size
        self._answers.take(size)
