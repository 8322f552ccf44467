"""Large buffers are freed some at a time: the kernel takes 6 ms to take 60 MiB back."""

from __future__ import annotations

import asyncio
import itertools
import struct
import sys
from collections.abc import Callable

import pytest
from support.scripted_node import HEARTBEAT

from pykcoord.server._freeing import AT_ONCE_BYTES, LITTLE_BYTES, Freeing

from .conftest import frame, serving

_LONG_BYTES = 12 * AT_ONCE_BYTES


def taken(count: int, make: Callable[[int], bytes | bytearray], size: int) -> Freeing:
    """It has so many buffers of that size to free, which nobody else has."""
    freeing = Freeing()
    for _ in range(count):
        freeing.take(make(size))
    return freeing


async def iterations(freeing: Freeing) -> list[int]:
    """What waits to be freed in each iteration of the loop, until nothing does."""
    left = [freeing.bytes_left]
    while left[-1]:
        await asyncio.sleep(0)
        left.append(freeing.bytes_left)
    return left


def test_a_part_is_freed_in_an_iteration_of_the_loop(run):
    async def main():
        freeing = taken(3, bytes, _LONG_BYTES)
        left = await iterations(freeing)
        assert left[0] == 3 * _LONG_BYTES
        steps = [before - after for before, after in itertools.pairwise(left)]
        assert max(steps) <= 2 * AT_ONCE_BYTES
        assert len(steps) >= 3 * 11
        freeing.take(bytes(LITTLE_BYTES))
        assert freeing.bytes_left == 0

    run(main())


def test_many_frames_of_a_mebibyte_are_not_freed_at_once(run):
    """Hundreds of clients went together, each with a part of a frame: 250 MiB in an iteration."""

    async def main():
        freeing = taken(50, bytes, AT_ONCE_BYTES)
        assert await iterations(freeing) == [left * AT_ONCE_BYTES for left in range(50, -1, -1)]

    run(main())


def test_of_an_answer_half_is_freed_at_once_and_of_parts_some(run):
    """Clients that went, and had left 200 MiB of answers unread, held all others up for 140 ms."""

    async def main():
        freeing = taken(3, bytearray, _LONG_BYTES)
        left = await iterations(freeing)
        assert left[0] == 3 * _LONG_BYTES
        steps = [before - after for before, after in itertools.pairwise(left)]
        assert max(steps) <= _LONG_BYTES // 2 + 1
        part = AT_ONCE_BYTES // 16
        freeing.take_all([memoryview(bytes(part)), *(bytes(part) for _ in range(63))])
        assert [after // part for after in await iterations(freeing)] == [64, 48, 32, 16, 0]

    run(main())


def test_what_a_client_has_not_read_is_freed_so_when_it_goes(run, request):
    if "unpolled" in request.node.name:
        pytest.skip("the loop has what is not sent, and frees it")

    async def main():
        async with serving() as rig:
            rig.node._handle = lambda turn, now, ticket, data: turn.foreign.append(ticket)
            hub = rig.server.hub
            answer = bytearray(4 * _LONG_BYTES)
            rig.server.foreign = lambda connection, ticket, frame: hub.answer(
                ticket, bytearray(answer)
            )
            client = await rig.connect()
            client.send(frame(HEARTBEAT))
            await rig.until(lambda: hub.unsent_bytes > 2 * _LONG_BYTES)
            client.writer.transport.abort()
            left: list[int] = []
            while hub.connections or hub.freeing.bytes_left:
                await asyncio.sleep(0)
                left.append(hub.freeing.bytes_left)
            assert max(left) == len(answer)
            assert len(list(filter(None, left))) > 3
            assert hub.unsent_bytes == 0

    run(main())


def test_what_somebody_has_is_left_alone(run):
    async def main():
        freeing = Freeing()
        kept = b"\x07" * _LONG_BYTES
        freeing.take(kept)
        assert len(await iterations(freeing)) == 2
        assert sys.getrefcount(kept) == 2
        assert kept == b"\x07" * _LONG_BYTES

    run(main())


def test_without_a_loop_it_is_freed_at_once():
    freeing = Freeing()
    freeing.take(bytes(_LONG_BYTES))
    assert freeing.bytes_left == 0


def test_what_came_of_a_long_frame_is_freed_so_when_its_client_goes(run):
    async def main():
        async with serving() as rig:
            client = await rig.connect()
            hub = rig.server.hub
            client.send(struct.pack(">ihhi", 2 * _LONG_BYTES, 11, 5, 1) + bytes(_LONG_BYTES))
            await rig.until(lambda: hub.received_bytes_total > _LONG_BYTES)
            assert hub.freeing.bytes_left == 0
            client.writer.close()
            left: list[int] = []
            while hub.connections or hub.freeing.bytes_left:
                await asyncio.sleep(0)
                left.append(hub.freeing.bytes_left)
            assert max(left) > _LONG_BYTES // 2
            assert len(list(filter(None, left))) > 5

    run(main())
