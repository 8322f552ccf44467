"""Coroutines that any thread hands to a coordinator's loop, each with the future of its result.

No future may wait for ever: when the loop fails, every call that has no result yet gets the error
that says so; and so it does in a child of fork, where the loop does not run.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

__all__ = ["Call", "Calls"]

logger = logging.getLogger("pykcoord.coordinator")

T = TypeVar("T")


class Call(concurrent.futures.Future[T]):
    """The future of one call. Cancelling it cancels the coroutine."""

    def lose(self, error: Exception) -> None:
        """Done, by `error`, in a child of fork. Another thread may have held the lock; what waits
        for the call, or is to be called back, is of the parent."""
        concurrent.futures.Future.__init__(self)
        self.set_exception(error)


class Calls:
    """The calls of one loop that have no result yet.

    `asyncio.run_coroutine_threadsafe` would do for a loop that never fails: its futures wait for
    ever where the loop ends before their coroutine began.
    """

    def __init__(self) -> None:
        self._open: set[Call[Any]] = set()

    def start(self, loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, T]) -> Call[T]:
        """Run `coroutine` on `loop`. No loop may be handed calls after `fail`."""
        call: Call[T] = Call()
        self._open.add(call)
        loop.call_soon_threadsafe(self._begin, loop, coroutine, call)
        return call

    def fail(self, error: Callable[[], Exception]) -> None:
        """Give every call that has no result an `error` of its own."""
        while self._open:
            _finish(self._open.pop().set_exception, error())

    def lose(self, error: Callable[[], Exception]) -> None:
        """The same in a child of fork."""
        for call in self._open:
            call.lose(error())
        self._open = set()

    def _begin(
        self, loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, T], call: Call[T]
    ) -> None:
        if call.done():  # cancelled, or failed, before it began
            coroutine.close()
            self._open.discard(call)
            return
        task = loop.create_task(coroutine)

        def cancel(call: concurrent.futures.Future[T]) -> None:
            if call.cancelled() and not loop.is_closed():
                loop.call_soon_threadsafe(task.cancel)

        def settle(task: asyncio.Task[T]) -> None:
            self._open.discard(call)
            if task.cancelled():
                _finish(call.cancel)
            elif (error := task.exception()) is not None:
                _finish(call.set_exception, error)
            else:
                _finish(call.set_result, task.result())

        call.add_done_callback(cancel)
        task.add_done_callback(settle)


def _finish(finish: Callable[..., object], *outcome: object) -> None:
    try:
        finish(*outcome)
    except concurrent.futures.InvalidStateError:
        pass  # cancelled, or failed, meanwhile
    except BaseException:  # SystemExit of a callback: it would end the loop, for all members
        logger.exception("a callback of a request's future failed")
