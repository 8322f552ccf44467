"""What clients have held back leaves memory for the answers of others."""

from __future__ import annotations

import asyncio

import pytest

from pykcoord.server.budget import Budget
from pykcoord.server.long_polls import SMALL_ANSWER_BYTES, LongPolls

FOR_DAYS_MS = 2**31 - 1
LONG = bytes(2 * SMALL_ANSWER_BYTES)


@pytest.mark.parametrize("ends", ["abandoned", "finished"])
def test_fetches_that_wait_for_ever_leave_memory_for_others_answers(ends: str) -> None:
    """They took all that there is for long answers: everybody who asked for one was refused."""

    async def main() -> None:
        replies: dict[int, bytes | bytearray] = {}
        answers = Budget(8 * len(LONG))
        polls = LongPolls(replies.__setitem__, answers)
        for ticket in range(20):
            polls.give(ticket, LONG, FOR_DAYS_MS)
        assert [ticket in polls for ticket in range(20)] == [True] * 4 + [False] * 16
        assert {*replies} == {*range(4, 20)}
        assert answers.taken == answers.most // 2
        for ticket in range(20, 60):
            polls.give(ticket, LONG[:SMALL_ANSWER_BYTES], FOR_DAYS_MS)
        assert len(polls) == 4 + 40
        assert answers.taken == answers.most // 2
        polls.abandon(0)
        polls.give(60, LONG, FOR_DAYS_MS)
        assert 60 in polls
        if ends == "finished":
            polls.finish()
            assert {*replies} == {*range(1, 61)}
        for ticket in range(61):
            polls.abandon(ticket)
        assert (len(polls), answers.taken) == (0, 0)

    asyncio.run(main())
