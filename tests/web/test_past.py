"""What happened to a group, of what is kept and what was heard, where other processes hear too."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from pykcoord.events import Event
from pykcoord.web.history import History
from pykcoord.web.past import Pasts
from pykcoord.web.source import Past, Source


class _Source:
    def __init__(self, tells_all: bool) -> None:
        self.tells_all = tells_all
        self.kept: list[Event] = []

    def past(self, group_id: str) -> Past:
        return Past(tuple(self.kept), 0)

    def kept_mark(self, group_id: str) -> object:
        return len(self.kept)


def event(at_ms: int, generation: int) -> Event:
    return Event("rebalance_started", "g", generation, timestamp_ms=at_ms)


def told(tells_all: bool, kept: list[Event], heard: list[Event]) -> list[int]:
    """Generations, in the order in which they are told."""
    source: Any = _Source(tells_all)
    history = History(lambda: 0)
    for one in heard:
        history.put(one)
    source.kept = kept
    pasts = Pasts(cast(Source, source), history, lambda: 0)
    return [one.generation_id for one in asyncio.run(pasts.of("g")).events]


def test_what_was_heard_at_another_node_is_told_beside_what_was_heard_here() -> None:
    first, second, third, fourth = (event(10 * n, n) for n in range(1, 5))
    # The group was led here, then elsewhere; the newest was told on the way, and is not kept yet.
    assert told(False, [first, second, third], [second, fourth]) == [1, 2, 3, 4]
    assert told(False, [first, second], []) == [1, 2]
    assert told(False, [], [third, fourth]) == [3, 4]


@pytest.mark.parametrize("tells_all", [True, False])
def test_each_is_told_once(tells_all: bool) -> None:
    first, second, same_time = event(10, 1), event(20, 2), event(20, 3)
    kept, heard = [first, second, same_time], [second, same_time, event(30, 4)]
    assert told(tells_all, kept, heard) == [1, 2, 3, 4]


def test_what_another_process_keeps_is_seen_and_read_anew() -> None:
    source: Any = _Source(False)
    now_ms = 0
    pasts = Pasts(cast(Source, source), History(lambda: 0), lambda: now_ms)

    async def run() -> None:
        assert not await pasts.has_more("g"), "nobody has read it"
        assert (await pasts.of("g")).events == ()
        assert not await pasts.has_more("g")
        source.kept = [event(10, 1)]
        assert (await pasts.of("g")).events == (), "of a moment ago"
        assert await pasts.has_more("g")
        assert [one.generation_id for one in (await pasts.of("g")).events] == [1]
        assert not await pasts.has_more("g")

    asyncio.run(run())
