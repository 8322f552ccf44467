"""What happens to groups of other nodes, as a node hears it at their control port."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import pytest

from pykcoord._native import ClusterNode
from pykcoord.cluster.asking import serve_asks
from pykcoord.cluster.hearing import EventsOfOthers, ToldEvents
from pykcoord.event_stream import EventStreams
from pykcoord.events import Event, EventMember
from pykcoord.runtime import Runtime

_SECRET = "a" * 20
_SECONDS = 60.0
_MEMBER = EventMember("m-1", None, "app", "/10.0.0.1", 'says "so"\n')
EVENTS = [
    Event("member_gone", "billing", 3, "session_expired", _MEMBER, timestamp_ms=7, silent_ms=30),
    Event(
        "group_stable", "\u202ebilling", 4, None, _MEMBER, 2, timestamp_ms=8,
        figures={"least": 1, "moved": 2},
    ),
    Event("group_created", "", 0, timestamp_ms=9),
]  # fmt: skip


class _Node(NamedTuple):
    """The own node, and another at a control port."""

    incarnation: int
    members: list[tuple[Any, ...]]


class _Runtime:
    tells = False

    def tell_events(self, on: bool) -> None:
        self.tells = on


async def _until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(_SECONDS):
        while not condition():
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("secret", [None, _SECRET])
def test_events_of_another_node_are_heard_as_they_were(secret: str | None) -> None:
    async def run() -> None:
        streams, runtime, heard = EventStreams(), _Runtime(), list[Event]()
        server = await serve_asks(
            ("127.0.0.1", 0), lambda ask, topics: (ask, topics), secret,
            new_events=lambda: ToldEvents(cast(Runtime, runtime), streams),
        )  # fmt: skip
        port = server.sockets[0].getsockname()[1]
        node = _Node(1, [(1, 1, "", 0, "127.0.0.1", 1), (2, 2, "", 0, "127.0.0.1", port)])
        others = EventsOfOthers(cast(ClusterNode, node), secret, heard.append)
        assert not others.hears_all
        hearing = asyncio.create_task(others.run())
        await _until(lambda: runtime.tells)
        for event in EVENTS:
            streams.put(event)
        await _until(lambda: len(heard) == len(EVENTS))
        assert heard == EVENTS
        assert others.hears_all
        hearing.cancel()
        await asyncio.gather(hearing, return_exceptions=True)
        streams.put(EVENTS[0])
        await _until(lambda: not streams)  # the connection is gone, and with it who listened
        server.close()

    asyncio.run(run())


def test_a_node_that_does_not_tell_is_asked_again_and_known_to_be_missing() -> None:
    """One of an earlier version closes the connection."""

    async def run() -> None:
        server = await serve_asks(("127.0.0.1", 0), lambda ask, topics: (ask, topics))
        port = server.sockets[0].getsockname()[1]
        node = _Node(1, [(2, 2, "", 0, "127.0.0.1", port)])
        others = EventsOfOthers(cast(ClusterNode, node), None, lambda event: None)
        hearing = asyncio.create_task(others.run())
        await asyncio.sleep(0)
        assert not others.hears_all
        server.close()
        streams = EventStreams()
        told = await serve_asks(
            ("127.0.0.1", port), lambda ask, topics: (ask, topics),
            new_events=lambda: ToldEvents(cast(Runtime, _Runtime()), streams),
        )  # fmt: skip
        await _until(lambda: streams)
        streams.put(EVENTS[0])
        await _until(lambda: others.hears_all)
        node.members.clear()
        assert others.hears_all, "there is no other"
        hearing.cancel()
        await asyncio.gather(hearing, return_exceptions=True)
        told.close()

    asyncio.run(run())
