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
            task = asyncio.ensure_future(_awaited(compute))
            kept = self._kept[key] = (loop.time(), task)
            self._kept.move_to_end(key)
            while len(self._kept) > _MOST:
                self._kept.popitem(last=False)
        try:
            return await asyncio.shield(kept[1])
        except BaseException:
            if kept[1].done() and self._kept.get(key) is kept:
                del self._kept[key]
            raise

    def forget(self) -> None:
        """Compute everything anew: something was changed."""
        self._kept.clear()


async def _awaited(compute: Callable[[], Awaitable[Any]]) -> Any:
    return await compute()
