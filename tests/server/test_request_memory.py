"""Requests that wait for their answers are bounded in all connections together."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.kio_client import encode

from pykcoord.server.jobs import _ELEMENT_BYTES

from .test_node_apis import metadata, topic_named
from .test_slices import Rig

_COUNT = 20_000
_LONG = encode(3, 9, **metadata([topic_named(f"t{index}") for index in range(_COUNT)]))
_SHORT = encode(3, 9, **metadata([topic_named("orders")]))
# The frame without its length, and its names and the structures around them.
_HELD_BYTES = len(_LONG) - 4 + _ELEMENT_BYTES * _COUNT


def _held(rig: Rig) -> Any:
    return rig.dispatcher._jobs.held_bytes


@pytest.mark.parametrize("ends", ["answered", "abandoned"])
def test_long_requests_that_wait_are_bounded_in_all(ends: str) -> None:
    """200 of 1.5 MB, each with 249,000 names, took 1.4 GB until they were answered."""

    async def main() -> None:
        rig = Rig()
        most_bytes = rig.dispatcher._jobs._requests.most = 3 * _HELD_BYTES
        tickets = {rig.send(_LONG) for _ in range(8)}
        held = [_held(rig)]
        while _held(rig) and not (ends == "abandoned" and len(rig.refused) > 3):
            await asyncio.sleep(0)
            held.append(_held(rig))
        assert most_bytes // 2 < max(held) < most_bytes + _HELD_BYTES
        await rig.until_answered(short := rig.send(_SHORT))
        assert short in rig.replies
        left = tickets - rig.refused.keys()
        assert 0 < len(left) < len(tickets)
        for reason in rig.refused.values():
            assert reason.startswith(f"Metadata of {len(_LONG) - 4} bytes: requests that wait")
        if ends == "answered":
            assert left <= rig.replies.keys()
        else:
            assert not left & rig.replies.keys()
            for ticket in left:
                rig.dispatcher.abandon(ticket)
        assert rig.at_rest()
        assert _held(rig) == 0

    asyncio.run(main())


def test_a_request_for_which_there_is_no_room_is_not_begun() -> None:
    async def main() -> None:
        rig = Rig()
        rig.dispatcher._jobs._requests.most = len(_LONG) // 2
        ticket = rig.send(_LONG)
        assert "requests that wait for their answers take more than" in rig.refused[ticket]
        assert rig.at_rest()
        assert _held(rig) == 0

    asyncio.run(main())


def test_what_was_made_of_an_answer_that_nobody_wants_is_freed_some_at_a_time() -> None:
    async def main() -> None:
        rig = Rig()
        jobs = rig.dispatcher._jobs
        freed: list[bytearray] = []
        jobs._free = freed.append
        ticket = rig.send(_LONG)
        while jobs._answers.taken < 50_000:
            await asyncio.sleep(0)
        rig.dispatcher.abandon(ticket)
        assert [len(out) >= 50_000 for out in freed] == [True]
        jobs._requests.most = len(_LONG)
        other = rig.send(_LONG)
        await rig.until_answered(other)
        assert other in rig.refused
        assert len(freed) == 2
        assert rig.at_rest()

    asyncio.run(main())
