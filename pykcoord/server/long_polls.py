"""Answers that are held back: a Fetch that finds nothing is answered when its time is up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from pykcoord.server.budget import Budget


class _Poll(NamedTuple):
    timer: asyncio.TimerHandle
    reply: bytes | bytearray


class LongPolls:
    """By ticket. An answer that is held back counts as one in flight: it is taken of `answers`."""

    def __init__(self, reply: Callable[[int, bytes | bytearray], None], answers: Budget) -> None:
        self._reply = reply
        self._answers = answers
        self._polls: dict[int, _Poll] = {}

    def __contains__(self, ticket: int) -> bool:
        return ticket in self._polls

    def __len__(self) -> int:
        return len(self._polls)

    def give(self, ticket: int, reply: bytes | bytearray, wait_ms: int) -> None:
        """Reply in `wait_ms`; 0: now."""
        if wait_ms == 0:
            self._reply(ticket, reply)
            return
        timer = asyncio.get_running_loop().call_later(wait_ms / 1000, self._end, ticket)
        self._answers.take(len(reply))
        self._polls[ticket] = _Poll(timer, reply)

    def abandon(self, ticket: int) -> None:
        """The client is gone."""
        poll = self._polls.pop(ticket, None)
        if poll is not None:
            poll.timer.cancel()
            self._answers.give(len(poll.reply))

    def finish(self) -> None:
        """Answer all now."""
        for ticket in list(self._polls):
            self._polls[ticket].timer.cancel()
            self._end(ticket)

    def _end(self, ticket: int) -> None:
        poll = self._polls.pop(ticket)
        self._answers.give(len(poll.reply))
        self._reply(ticket, poll.reply)
