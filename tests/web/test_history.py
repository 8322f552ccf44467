"""What a console remembers of events: bounded, and without a gap."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Sequence
from typing import Any

import pytest

from pykcoord.events import Event
from pykcoord.web import Past, history, past
from pykcoord.web.briefly import Briefly
from pykcoord.web.history import HOUR_MS, History
from pykcoord.web.past import Pasts

NOW = 1_795_000_000_000


def _event(at_ms: int, kind: str = "member_joined", group_id: str = "g") -> Event:
    return Event(kind, group_id, 1, timestamp_ms=at_ms)


def test_every_rebalance_of_the_last_hour_counts_however_much_happens_between() -> None:
    kept = History(lambda: NOW)
    for number in range(100):
        kept.put(_event(NOW + 20 * number, "rebalance_started"))
        for rest in range(1, 20):
            kept.put(_event(NOW + 20 * number + rest))
    assert len(kept.of("g")) < 2_000
    assert kept.rebalances("g") == 100
    assert kept.rebalanced() == {"g": 100}


def test_rebalances_of_before_count_for_an_hour() -> None:
    now = [NOW]
    kept = History(lambda: now[0])
    kept.count_before([("g", NOW - 10), ("g", NOW - HOUR_MS + 5), ("h", NOW)], NOW - HOUR_MS)
    assert (kept.rebalances("g"), kept.rebalances("h")) == (2, 0)
    assert kept.counts_since_ms == NOW - HOUR_MS
    now[0] += 10
    kept.put(_event(now[0], "group_epoch_bumped", "h"))
    assert (kept.rebalances("g"), kept.rebalances("h")) == (1, 1)
    now[0] += HOUR_MS + 1
    assert kept.rebalanced() == {}


def test_of_too_many_rebalances_the_newest_count_and_it_says_since_when(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(history, "_MOST_STARTS", 100)
    kept = History(lambda: NOW + 1_000)
    for number in range(1_000):
        kept.put(_event(NOW + number, "rebalance_started", f"g{number % 10}"))
    counts = kept.rebalanced()
    assert 50 <= sum(counts.values()) <= 100
    assert NOW + 900 <= kept.counts_since_ms <= NOW + 950


class Files:
    """A source that keeps all events."""

    tells_all = True

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.read = 0

    def kept_mark(self, group_id: str) -> object:
        return len(self.events)

    def past(self, group_id: str) -> Past:
        self.read += 1
        return Past([one for one in self.events if one.group_id == group_id], NOW)


@pytest.mark.parametrize("forgotten", ["its oldest", "all of it"])
def test_nothing_is_missing_between_what_was_read_and_what_is_heard(
    monkeypatch: pytest.MonkeyPatch, forgotten: str
) -> None:
    monkeypatch.setattr(history, "_PER_GROUP", 10)
    monkeypatch.setattr(history, "_MOST_EVENTS", 30)
    now = [NOW]
    heard, files = History(lambda: now[0]), Files()
    source: Any = files
    pasts = Pasts(source, heard, lambda: now[0])

    def happens(event: Event) -> None:
        now[0] = event.timestamp_ms
        files.events.append(event)
        heard.put(event)

    def told() -> Sequence[Event]:
        return asyncio.run(pasts.of("g")).events

    happens(_event(NOW + 1))
    assert len(told()) == 1
    for number in range(2, 8):
        happens(_event(NOW + number))
    for number in range(100, 140):
        group_id = "g" if forgotten == "its oldest" else f"other-{number}"
        happens(_event(NOW + number, group_id=group_id))
    happens(_event(NOW + 200))
    assert told() == [one for one in files.events if one.group_id == "g"]
    read = files.read
    happens(_event(NOW + 201))
    assert told() == [one for one in files.events if one.group_id == "g"]
    assert files.read == read


def test_pasts_of_many_groups_are_bounded_by_their_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(past, "_MOST_KEPT", 100)
    files = Files()
    source: Any = files
    pasts = Pasts(source, History(lambda: NOW), lambda: NOW)
    files.events = [_event(NOW, group_id=f"g{one % 10}") for one in range(300)]
    for number in range(10):
        asyncio.run(pasts.of(f"g{number}"))
    files.read = 0
    asyncio.run(pasts.of("g9"))
    assert files.read == 0
    asyncio.run(pasts.of("g0"))
    assert files.read == 1


class _Page:
    """An answer."""


def test_an_answer_that_is_old_is_not_kept_until_many_others_came() -> None:
    async def story() -> None:
        briefly = Briefly(0.0)

        async def page() -> _Page:
            return _Page()

        first = weakref.ref(await briefly.get("first", page))
        await briefly.get("second", page)
        gc.collect()
        assert first() is None

    asyncio.run(story())
