"""`Coordinator.events`: what happens to groups, for readers on any thread and any loop."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from pathlib import Path

import pytest

from pykcoord import Config, Coordinator
from pykcoord.errors import ArgumentError, CoordinatorClosedError
from pykcoord.event_stream import EventStream, EventStreams
from pykcoord.events import Event

from .conftest import Join

BEGINNING = [
    "group_created", "member_joined", "rebalance_started", "join_phase_completed", "group_stable",
]  # fmt: skip


def _kinds(stream: EventStream, count: int) -> list[str]:
    return [event.kind for event in itertools.islice(stream, count)]


def test_what_happens_to_a_group_is_told_as_it_happens(
    coordinator: Coordinator, join: Join
) -> None:
    with coordinator.events() as events:
        member = join(client_id="ledger")
        assert _kinds(events, 5) == BEGINNING
        member.close()
        gone, rebalance, empty = itertools.islice(events, 3)
    assert gone.member is not None
    assert (gone.kind, gone.cause, gone.member.client_id) == ("member_gone", "left", "ledger")
    assert (rebalance.kind, rebalance.cause) == ("rebalance_started", "member_left")
    assert (empty.kind, empty.count, empty.group_id) == ("join_phase_completed", 0, "billing")
    assert list(events) == []


def test_events_can_be_awaited_on_a_loop_of_ones_own(coordinator: Coordinator, join: Join) -> None:
    async def main() -> list[str]:
        kinds = []
        with coordinator.events() as events:
            joining = asyncio.create_task(asyncio.to_thread(join))
            async for event in events:
                kinds.append(event.kind)
                if len(kinds) == len(BEGINNING):
                    break
            await joining
        return kinds

    assert asyncio.run(main()) == BEGINNING


def test_each_reader_has_all_events(coordinator: Coordinator, join: Join) -> None:
    streams = [coordinator.events() for _ in range(3)]
    join()
    assert [_kinds(stream, 5) for stream in streams] == [BEGINNING] * 3


def test_a_reader_that_is_slow_loses_the_oldest_and_can_tell(
    coordinator: Coordinator, join: Join
) -> None:
    slow, quick = coordinator.events(limit=2), coordinator.events()
    join()
    assert _kinds(quick, 5) == BEGINNING
    assert _kinds(slow, 2) == BEGINNING[3:]
    assert (slow.dropped, quick.dropped) == (3, 0)


def test_a_stream_from_before_the_start_ends_with_the_coordinator(tmp_path: Path) -> None:
    config = Config(group_initial_rebalance_delay_ms=0, offsets_topic_num_partitions=4)
    coordinator = Coordinator(tmp_path / "data", topics={"orders": 1}, config=config)
    events = coordinator.events()
    with coordinator, coordinator.join("billing", ["orders"]) as member:
        member.wait(timeout_seconds=60)
    kinds = [event.kind for event in events]
    assert kinds[:5] == BEGINNING
    assert kinds[-1] == "join_phase_completed"
    with pytest.raises(CoordinatorClosedError):
        coordinator.events()


def test_a_stream_of_a_coordinator_that_failed_raises_once_it_is_read() -> None:
    stream = EventStream(10, lambda stream: None)
    event = Event("group_created", "g", 0)
    stream.put(event)
    stream.end(CoordinatorClosedError("failed"))
    stream.put(event)
    assert next(stream) == event
    with pytest.raises(CoordinatorClosedError, match="failed"):
        next(stream)


@pytest.mark.parametrize("limit", [0, -1, True, 1.5, "many"])
def test_a_limit_is_a_number_of_events(coordinator: Coordinator, limit: object) -> None:
    with pytest.raises(ArgumentError, match="limit"):
        coordinator.events(limit=limit)  # type: ignore[arg-type]


def test_who_waits_for_an_event_no_longer_leaves_nothing_behind() -> None:
    stream = EventStreams().add(10)

    async def look() -> None:
        for _ in range(100):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(anext(stream), 0.0001)
        assert stream._sleepers == []
        stream.put(Event("group_created", "g", 0))
        assert (await anext(stream)).group_id == "g"

    asyncio.run(look())
