"""The list of all groups while it is made, and where nobody can be asked for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from pykcoord.web import listing as listings
from pykcoord.web.index import CHUNK, IndexBuilder, Kind, tail
from pykcoord.web.listing import Listing

KIND = tail(Kind("consumer", "Stable", "classic"))
NODE = SimpleNamespace(node_id=1)


class Slow:
    """A node that has told of one chunk of groups, and tells the rest when it is let."""

    def __init__(self) -> None:
        self.goes_on = asyncio.Event()
        self.failure: Exception | None = None

    async def list_into(self, builder: IndexBuilder, node: Any) -> int:
        return await builder.put(self._chunks())

    async def _chunks(self) -> AsyncIterator[list[tuple[bytes, bytes]]]:
        if self.failure is not None:
            raise self.failure
        yield [(f"a-{number:04}".encode(), KIND) for number in range(CHUNK)]
        await self.goes_on.wait()
        yield [(f"b-{number:04}".encode(), KIND) for number in range(CHUNK)]


def _listing(reading: Slow) -> tuple[Listing, asyncio.Task[None]]:
    source: Any = SimpleNamespace(nodes=lambda: [NODE])
    listing = Listing(source, reading, lambda: 0)  # type: ignore[arg-type]
    return listing, asyncio.create_task(listing.run())


def test_the_first_page_waits_for_no_more_than_what_it_shows() -> None:
    async def story() -> None:
        slow = Slow()
        listing, running = _listing(slow)
        async with asyncio.timeout(60):
            part = await listing.get()
            assert (part.total, part.is_whole) == (CHUNK, False)
            assert len(await part.page(50)) == 50
            slow.goes_on.set()
            while not (index := await listing.get()).is_whole:
                await asyncio.sleep(0)
            assert index.total == 2 * CHUNK
        running.cancel()

    asyncio.run(story())


def test_a_node_that_cannot_be_asked_makes_no_whole_list() -> None:
    async def story() -> None:
        slow = Slow()
        slow.failure = ValueError("error -1")
        listing, running = _listing(slow)
        async with asyncio.timeout(60):
            index = await listing.get()
        assert (index.total, index.is_whole) == (0, False)
        assert listing.unreachable == {1: "error -1"}
        running.cancel()

    asyncio.run(story())


def test_nodes_that_did_not_answer_are_asked_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listings, "_PAUSE_FACTOR", 1e9)

    async def story() -> None:
        slow = Slow()
        slow.failure = ValueError("error -1")
        listing, running = _listing(slow)
        async with asyncio.timeout(60):
            assert (await listing.get()).total == 0
            slow.failure = None
            slow.goes_on.set()
            while not (index := await listing.get()).is_whole:
                await asyncio.sleep(0.01)
        assert index.total == 2 * CHUNK
        running.cancel()

    asyncio.run(story())


class Renamed:
    """A node with one group, whose name is another one later."""

    def __init__(self) -> None:
        self.name = b"old"

    async def list_into(self, builder: IndexBuilder, node: Any) -> int:
        return await builder.put(self._chunks())

    async def _chunks(self) -> AsyncIterator[list[tuple[bytes, bytes]]]:
        yield [(self.name, KIND)]


def test_who_looks_after_a_while_sees_a_new_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that asks each minute was told what was so a minute before."""
    monkeypatch.setattr(listings, "_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(listings, "_PAUSE_FACTOR", 0.0)
    monkeypatch.setattr(listings, "_WATCHED_SECONDS", -1.0)
    monkeypatch.setattr(listings, "_FRESH_SECONDS", 60.0)

    async def story() -> None:
        node = Renamed()
        listing, running = _listing(node)  # type: ignore[arg-type]
        async with asyncio.timeout(60):
            for name in (b"old", b"new"):
                node.name = name
                page = await (await listing.get()).page(50)
                assert [entry.group_id for entry in page] == [name.decode()]
                for _ in range(10):  # turns of the loop, until it waits for who looks next
                    await asyncio.sleep(0)
        running.cancel()

    asyncio.run(story())
