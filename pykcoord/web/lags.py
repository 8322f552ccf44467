"""Lag as pages ask for it, of a `LagWatch` that lives on another loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

from pykcoord.lag import Behind, Place
from pykcoord.lag_watch import LagWatch

__all__ = ["behind", "lag_history"]

T = TypeVar("T")


class Run(Protocol):
    """Runs a coroutine on the loop of the `LagWatch`."""

    def __call__(self, work: Coroutine[Any, Any, T], /) -> Future[T]: ...


async def behind(
    lag: LagWatch | None,
    run: Run,
    committed: Sequence[tuple[Place, int]],
    now_ms: Callable[[], int],
) -> Sequence[Behind]:
    """See `pykcoord.web.Source.behind`. `lag` None: no end is known."""
    if lag is None:
        return [Behind(None, False)] * len(committed)
    known = lag

    async def look() -> Sequence[Behind]:
        return known.behind(committed, now_ms())

    return await asyncio.wrap_future(run(look()))


async def lag_history(
    lag: LagWatch | None, run: Run, group_id: str
) -> Mapping[Place, Sequence[tuple[int, int]]]:
    """See `pykcoord.web.Source.lag_history`, likewise."""
    if lag is None:
        return {}
    known = lag

    async def look() -> Mapping[Place, Sequence[tuple[int, int]]]:
        return known.history.of(group_id)

    return await asyncio.wrap_future(run(look()))
