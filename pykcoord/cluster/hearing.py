"""What happens to groups of the other nodes, as it happens: for the console, which shows the groups
of all. What is lost on the way is in what the nodes keep, and is read there.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from pykcoord._native import ClusterNode
from pykcoord.cluster.asking import AskClient
from pykcoord.event_stream import EventStream, EventStreams
from pykcoord.events import Event
from pykcoord.explain.story import event_fields
from pykcoord.runtime import Runtime

__all__ = ["EventsOfOthers", "ToldEvents"]

_LIMIT = 10_000
# For how long an answer waits for an event, and then for others.
_WAIT_SECONDS = 2.0
_TOGETHER_SECONDS = 0.05
_MOST_EVENTS = 1_000
_MOST_BYTES = 1 << 20
_ANSWER_SECONDS = 10.0
# How often it is looked whether nodes came, and a node asked again that does not answer.
_LOOK_SECONDS = 1.0


class ToldEvents:
    """What happens to groups that are led here, of which `streams` hear, for a node that asks: see
    `pykcoord.cluster.asking.HeardEvents`. On the loop of `runtime` only."""

    def __init__(self, runtime: Runtime, streams: EventStreams) -> None:
        self._stream = streams.add(_LIMIT)
        self._has_begun = False
        runtime.tell_events(True)

    async def next(self) -> list[dict[str, Any]] | None:
        """See there. The first answer comes at once: from now on it is told."""
        if not self._has_begun:
            self._has_begun = True
            return []
        return await _next(self._stream)

    def close(self) -> None:
        """See there."""
        self._stream.close()


async def _next(stream: EventStream) -> list[dict[str, Any]] | None:
    found: list[dict[str, Any]] = []
    size = 0
    try:
        async with asyncio.timeout(_WAIT_SECONDS) as limit:
            async for event in stream:
                if not found:
                    limit.reschedule(asyncio.get_running_loop().time() + _TOGETHER_SECONDS)
                found.append({"group_id": event.group_id, **event_fields(event)})
                size += len(json.dumps(found[-1]))
                if len(found) >= _MOST_EVENTS or size >= _MOST_BYTES:
                    return found
    except TimeoutError:
        return found
    return found or None


class EventsOfOthers:
    """Asks the nodes that `node` knows, but itself, while `run` runs. `put` is given each event."""

    def __init__(self, node: ClusterNode, secret: str | None, put: Callable[[Event], None]) -> None:
        self._node = node
        self._secret = secret
        self._put = put
        self._heard: set[int] = set()

    @property
    def hears_all(self) -> bool:
        """Whether each of them answers."""
        return self._others().keys() <= self._heard

    async def run(self) -> None:
        """Until cancelled."""
        tasks: dict[int, asyncio.Task[None]] = {}
        try:
            while True:
                others = self._others()
                for gone in tasks.keys() - others.keys():
                    tasks.pop(gone).cancel()
                for incarnation in others.keys() - tasks.keys():
                    host, port = others[incarnation]
                    client = AskClient(host, port, self._secret)
                    tasks[incarnation] = asyncio.create_task(self._hear(incarnation, client))
                await asyncio.sleep(_LOOK_SECONDS)
        finally:
            for task in tasks.values():
                task.cancel()
            await asyncio.gather(*tasks.values(), return_exceptions=True)

    def _others(self) -> dict[int, tuple[str, int]]:
        own = self._node.incarnation
        return {one[0]: (one[4], one[5]) for one in self._node.members if one[0] != own}

    async def _hear(self, incarnation: int, client: AskClient) -> None:
        try:
            while True:
                try:
                    for fields in await client.events(_ANSWER_SECONDS):
                        self._put(Event.of_json(fields))
                    self._heard.add(incarnation)
                except (OSError, ValueError, LookupError, TypeError):
                    self._heard.discard(incarnation)
                    await asyncio.sleep(_LOOK_SECONDS)
        finally:
            self._heard.discard(incarnation)
            client.close()
