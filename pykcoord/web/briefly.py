"""Answers that are kept for a moment: many browsers that look at one page cost what one does."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Any

__all__ = ["Briefly"]

_MOST = 512


class Briefly:
    """Keeps what was computed for `seconds`; who asks meanwhile waits for the same computation."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._kept: OrderedDict[Hashable, tuple[float, asyncio.Task[Any]]] = OrderedDict()

    async def get(self, key: Hashable, compute: Callable[[], Awaitable[Any]]) -> Any:
        """What is kept under `key`, or computed now. Raises what `compute` raises; that is not
        kept."""
        loop = asyncio.get_running_loop()
        kept = self._kept.get(key)
        if kept is None or (kept[1].done() and loop.time() - kept[0] > self._seconds):
            self._kept.pop(key, None)
            self._forget_old(loop.time())
            kept = self._kept[key] = (loop.time(), asyncio.ensure_future(_awaited(compute)))
        try:
            return await asyncio.shield(kept[1])
        except BaseException:
            if kept[1].done() and self._kept.get(key) is kept:
                del self._kept[key]
            raise

    def forget(self) -> None:
        """Compute everything anew: something was changed."""
        self._kept.clear()

    def _forget_old(self, now: float) -> None:
        """Those that began first stand first."""
        while self._kept:
            key, (began, task) = next(iter(self._kept.items()))
            is_old = task.done() and now - began > self._seconds
            if not is_old and len(self._kept) < _MOST:
                return
            del self._kept[key]


async def _awaited(compute: Callable[[], Awaitable[Any]]) -> Any:
    return await compute()
