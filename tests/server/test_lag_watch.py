"""Partitions that fall behind while their owner commits nothing."""

from __future__ import annotations

import json
from collections.abc import Coroutine, Iterator
from typing import Any

from pykcoord import lag_watch
from pykcoord._native import EventBatch
from pykcoord.catalogue import TopicCatalogue
from pykcoord.consumer_protocol import encode_assignment
from pykcoord.events import Event
from pykcoord.explain import explain
from pykcoord.lag import Lags
from pykcoord.lag_watch import LagWatch
from pykcoord.observers import in_steps

MINUTE = 60_000


class Rows:
    """A node of one shard, with one group of one member that has orders-0 and orders-1."""

    shards = 1

    def __init__(self) -> None:
        self.committed = {0: 10, 1: 10}
        self.members = True

    def stats(self) -> dict[str, Any]:
        return {"offsets": len(self.committed)}

    def offsets(self, shard: int) -> list[tuple[Any, ...]]:
        rest = (-1, "", 0, -1, bytes(16))
        return [("g", "orders", one, offset, *rest) for one, offset in self.committed.items()]

    def groups(self, shard: int) -> list[tuple[Any, ...]]:
        assignment = encode_assignment([("orders", 0), ("orders", 1)])
        member = ("app-1", None, "app", "/10.0.0.1", 1, 1, b"", assignment, None)
        members = [member] if self.members else []
        return [("g", "classic", "Stable", "consumer", 1, "range", "app-1", 0, members, None)]


def _in_steps(work: Coroutine[Any, Any, Lags]) -> tuple[int, Lags]:
    """How many iterations of the loop it took, and what it told."""
    steps = 0
    try:
        while True:
            work.send(None)
            steps += 1
    except StopIteration as done:
        return steps, done.value


def test_it_is_told_when_it_grows_and_again_when_it_has_doubled() -> None:
    rows, catalogue = Rows(), TopicCatalogue({"orders": 2})
    told: list[Event] = []

    def take(recorded: EventBatch) -> None:
        told.extend(Event.of_json(json.loads(one[3])) for one in recorded.rows())

    watch = LagWatch(rows, catalogue, take)
    watch.look(0)  # nothing is known of ends
    for minute in range(10):
        catalogue.set_end_offsets({("orders", 0): 20 + 10 * minute, ("orders", 1): 20})
        rows.committed[1] = 10 + minute
        watch.look(minute * MINUTE)
    assert [(event.detail, event.count, event.silent_ms) for event in told] == [
        ("orders-0", 20, MINUTE),
        ("orders-0", 50, 4 * MINUTE),
    ]
    (pattern,) = explain(told, "g").patterns
    assert pattern.name == "lag_without_commits"
    assert "app-1 at 10.0.0.1" in pattern.text
    told.clear()
    rows.committed[0] = 110
    watch.look(10 * MINUTE)
    rows.members = False
    for minute in range(11, 20):
        catalogue.set_end_offsets({("orders", 0): 200 + minute})
        watch.look(minute * MINUTE)
    assert told == []


def test_many_offsets_are_looked_at_in_steps() -> None:
    """100,000 in a shard held the loop, and every member, up for half a second each time."""
    count = 5_000
    rows, catalogue = Rows(), TopicCatalogue({"orders": count})
    rows.committed = dict.fromkeys(range(count), 10)
    catalogue.set_end_offsets({("orders", one): 20 + one for one in range(count)})
    watch = LagWatch(rows, catalogue, lambda recorded: None)
    steps = len(list(watch.looking(0)))
    assert steps > 3 * count // 600
    asked, behind = _in_steps(watch.lags(0))
    assert asked > steps
    assert [len(group.partitions) for group in behind.groups] == [count]
    begun = watch.looking(MINUTE)
    next(begun)
    catalogue.set_end_offsets({("orders", 0): 500})
    _, further = _in_steps(watch.lags(MINUTE))
    assert further.groups[0].lag == behind.groups[0].lag + 480
    assert len(list(begun)) > count // 600
    assert len(watch.history.of("g")) == count


def test_of_many_partitions_of_a_group_owners_are_found_once(monkeypatch) -> None:
    """They were found for each partition that is told, and all at once."""
    count, found = 2_000, []

    def decode(assignment: bytes) -> frozenset[tuple[str, int]]:
        found.append(assignment)
        return frozenset(("orders", one) for one in range(count))

    monkeypatch.setattr(lag_watch, "decode_assignment", decode)
    rows, catalogue, told = Rows(), TopicCatalogue({"orders": count}), []
    rows.committed = dict.fromkeys(range(count), 10)
    watch = LagWatch(rows, catalogue, lambda recorded: told.extend(recorded.rows()))
    steps = []
    for minute in range(2):
        catalogue.set_end_offsets({("orders", one): 20 + minute for one in range(count)})
        steps.append(len(list(watch.looking(minute * MINUTE))))
    assert len(told) == count
    assert len(found) == 1
    assert steps[1] >= steps[0] + count // 600


def test_a_look_that_fails_in_one_of_its_steps_ends_nothing(caplog) -> None:
    def failing() -> Iterator[None]:
        yield
        raise SystemExit(3)

    assert len(list(in_steps(failing()))) == 1
    assert "an observer failed" in caplog.text
