"""The list of all groups, renewed as often as someone looks and as it is cheap."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from pykcoord.errors import KcoordError
from pykcoord.events import Event
from pykcoord.web.index import Index, IndexBuilder
from pykcoord.web.reading import Reads
from pykcoord.web.source import Source

__all__ = ["Listing"]

logger = logging.getLogger("pykcoord.web")

# Between two listings: this, or so many times what the last one took.
_PAUSE_SECONDS = 0.5
_PAUSE_FACTOR = 20.0
# For so long a page waits for a new list where nobody had looked for a while. With a million groups
# that takes longer: the page has the old list, and says from when it is.
_FRESH_SECONDS = 0.5
# How long a listing goes on after the last look.
_WATCHED_SECONDS = 15.0
_MOST_ADDED = 10_000
# For so long a page that is made while the first list goes on has the interpreter before it.
_REST_SECONDS = 0.1


class Listing:
    """All groups of all nodes. `run` renews it; on the console's loop only."""

    def __init__(self, source: Source, reading: Reads, now_ms: Callable[[], int]) -> None:
        self._source = source
        self._reading = reading
        self._now_ms = now_ms
        self._index: Index | None = None
        self._built = asyncio.Event()
        self._wanted = asyncio.Event()
        self._is_fresh = asyncio.Event()
        self._looked_at = 0.0
        self._added: dict[str, int] = {}
        self._versions = 0
        self._building: tuple[IndexBuilder, int] | None = None
        self._began = asyncio.Event()
        self._rests_until = 0.0
        self.unreachable: dict[int, str] = {}
        """Nodes that did not answer the last listing, and why."""
        self.by_node: dict[int, int] = {}
        """How many groups each node coordinates."""

    async def get(self) -> Index:
        """All groups, as far as they are known. While the first listing goes on, those that it has
        come to, once that is a page."""
        self._looked_at = asyncio.get_running_loop().time()
        self._wanted.set()
        if self._index is not None and not self._is_fresh.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(_FRESH_SECONDS):
                    await self._is_fresh.wait()
        while self._index is None:
            some = self._building[0].has_some if self._building is not None else self._began
            waits = [asyncio.ensure_future(one.wait()) for one in (some, self._built)]
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for one in waits:
                    one.cancel()
            if self._index is None and self._building is not None:
                builder, begun_ms = self._building
                if builder.has_some.is_set():
                    self._rests_until = asyncio.get_running_loop().time() + _REST_SECONDS
                    return builder.part(self._versions, begun_ms)
        return self._index.plus(self._added) if self._added else self._index

    def hear(self, event: Event) -> None:
        """A group that is new is shown before it is listed."""
        if event.kind == "group_created" and len(self._added) < _MOST_ADDED:
            self._added[event.group_id] = self._now_ms()

    async def run(self) -> None:
        """Renew it until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            started = loop.time()
            await self._renew()
            self._is_fresh.set()
            took = loop.time() - started
            # The pause spares the nodes. One that did not answer is asked again soon.
            factor = _PAUSE_FACTOR if self.by_node else 0.0
            await asyncio.sleep(max(_PAUSE_SECONDS, factor * took))
            if loop.time() - self._looked_at > _WATCHED_SECONDS:
                self._wanted.clear()
                self._is_fresh.clear()
                await self._wanted.wait()

    async def _rest(self) -> None:
        """Pages that show a part of the first list come before the rest of it."""
        left = self._rests_until - asyncio.get_running_loop().time()
        if left > 0:
            await asyncio.sleep(left)

    async def _renew(self) -> None:
        begun_ms = self._now_ms()
        builder = IndexBuilder(self._rest)
        if self._index is None:
            self._building = builder, begun_ms
            self._began.set()
        unreachable: dict[int, str] = {}
        by_node: dict[int, int] = {}
        for node in self._source.nodes():
            try:
                by_node[node.node_id] = await self._reading.list_into(builder, node)
            except (OSError, KcoordError, ValueError, IndexError) as error:
                unreachable[node.node_id] = str(error) or type(error).__name__
        # Of one node that ends there is nobody to tell.
        if unreachable and unreachable != self.unreachable and len(self._source.nodes()) > 1:
            logger.warning(
                "console: no groups of node %s: %s",
                ", ".join(map(str, unreachable)),
                next(iter(unreachable.values())),
                extra={"event": "web_listing"},
            )
        self.unreachable, self.by_node = unreachable, by_node
        if unreachable and self._index is not None and not by_node:
            return
        self._versions += 1
        self._index = builder.finish(self._versions, begun_ms, bool(by_node) or not unreachable)
        # What was told since this listing began may not be in it.
        self._added = {one: at for one, at in self._added.items() if at >= begun_ms - 1_000}
        self._building = None
        self._built.set()
