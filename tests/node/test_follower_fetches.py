"""Followers' Fetch in sessions: what they are answered, and when."""

from __future__ import annotations

import asyncio
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from kio.schema.fetch.v18.request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)
from kio.schema.types import BrokerId
from kio.static.primitive import i32, i32Timedelta, i64

from pykcoord.node import follower_fetches
from pykcoord.node._fetch_frames import Asked
from pykcoord.node.follower_fetches import FollowerFetch
from pykcoord.protocol import decode_response, encode_request

from .led import BATCH_BYTES, EPOCH, OTHER_ID, TOPIC_ID, Leader, run

_LONG_MS = 50_000
_NOT_LEADER = 6


class _Follower:
    """Broker 1, in one session."""

    def __init__(self, leader: Leader) -> None:
        self.leader = leader
        self.session_id = 0
        self.epoch = 0
        self.waiting: FollowerFetch | None = None
        self.told: dict[int, int] = {}  # high watermarks, by the last answer

    def ask(self, *named: tuple[int, int], wait_ms: int = _LONG_MS, **more: Any) -> Any:
        """A task with the answer to a request that names (partition, offset)."""
        return asyncio.create_task(self.answered(*named, wait_ms=wait_ms, **more))

    async def answered(
        self,
        *named: tuple[int, int],
        wait_ms: int = 0,
        min_bytes: int = 1,
        max_bytes: int = 1 << 20,
        forgotten: tuple[int, ...] = (),
        topic_id: uuid.UUID = TOPIC_ID,
    ) -> dict[int, int]:
        """By partition, where there are some: batches, or an error code, as a negative number."""
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=BrokerId(1), replica_epoch=i64(4)),
            max_wait=i32Timedelta.parse(timedelta(milliseconds=wait_ms)),
            min_bytes=i32(min_bytes), max_bytes=i32(max_bytes),
            session_id=i32(self.session_id), session_epoch=i32(self.epoch),
            topics=(
                FetchTopic(
                    topic_id=topic_id,
                    partitions=tuple(
                        FetchPartition(
                            partition=i32(number), current_leader_epoch=i32(EPOCH),
                            fetch_offset=i64(offset), partition_max_bytes=i32(1 << 20),
                        )
                        for number, offset in named
                    ),
                ),
            ),
            forgotten_topics_data=(
                ForgottenTopic(topic_id=TOPIC_ID, partitions=tuple(map(i32, forgotten))),
            ),
        )  # fmt: skip
        frame = encode_request(request, 7)
        replied: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        taken = self.leader.followers.take(frame[4:8], Asked(frame), replied.set_result)
        self.waiting = taken
        answer = decode_response(request, (await replied)[4:])
        assert not answer.error_code.value
        self.session_id, self.epoch = int(answer.session_id), self.epoch + 1
        told = [one for topic in answer.responses for one in topic.partitions]
        self.told = {int(one.partition_index): int(one.high_watermark) for one in told}
        found = {
            int(one.partition_index): -one.error_code.value
            or len(one.records or b"") // BATCH_BYTES
            for one in told
        }
        return {number: many for number, many in found.items() if many}


async def _turns() -> None:
    """What is to come at once has come then."""
    for _ in range(5):
        await asyncio.sleep(0)


def test_what_is_as_it_was_is_neither_asked_nor_answered(tmp_path: Path) -> None:
    async def story(leader: Leader) -> None:
        leader.lead_one(1)
        follower = _Follower(leader)
        assert await follower.answered((0, 0), (1, 0)) == {0: 2}
        assert follower.told.keys() == {0, 1}
        await leader.synced()
        assert await follower.answered((0, 2)) == {}
        assert not [key for one in leader.followers._sessions for key in one.news]
        leader.append(0, number=1)
        assert await follower.answered() == {1: 1}
        assert await follower.answered(forgotten=(1,)) == {}
        leader.append(1, number=1)
        assert await follower.answered() == {}
        assert leader.partition.followers[1].end == 2

    run(tmp_path / "d", story)


def test_the_high_watermark_is_told_with_what_comes_next(tmp_path: Path) -> None:
    async def story(leader: Leader) -> None:
        leader.partition.placed((9, 1, 2), (9, 1, 2), 2)
        follower = _Follower(leader)
        await follower.answered((0, 0))
        assert follower.told == {0: 0}
        await leader.synced()
        waiting = follower.ask((0, 2))
        await _turns()
        leader.log.fetched(2, 4, [(0, 2)])
        await _turns()
        assert leader.partition.high_watermark == 2
        assert not waiting.done(), "it waits for records"
        leader.append(2)
        assert await waiting == {0: 1}
        assert follower.told == {0: 2}
        await leader.synced()
        leader.log.fetched(2, 4, [(0, 3)])
        assert await follower.answered((0, 3), wait_ms=1) == {}
        assert follower.told == {0: 3}, "or when it is over"
        await follower.answered()
        assert follower.told == {}

    run(tmp_path / "d", story)


def test_what_comes_soon_after_an_answer_is_gathered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(leader: Leader) -> None:
        follower = _Follower(leader)
        monkeypatch.setattr(follower_fetches, "GATHER_SECONDS", 0.0)
        await follower.answered((0, 0))
        waiting = follower.ask((0, 2))
        await _turns()
        leader.append(2)
        assert await waiting == {0: 1}
        monkeypatch.setattr(follower_fetches, "GATHER_SECONDS", 0.2)
        waiting = follower.ask((0, 3))
        await _turns()
        for offset in range(3, 6):
            leader.append(offset)
            await _turns()
        assert await waiting == {0: 3}

    run(tmp_path / "d", story)


def test_a_follower_hears_at_once_that_another_leads(tmp_path: Path) -> None:
    async def story(leader: Leader) -> None:
        follower = _Follower(leader)
        await follower.answered((0, 0))
        waiting = follower.ask((0, 2))
        await _turns()
        leader.log.release(0)
        assert await waiting == {0: -_NOT_LEADER}
        assert await follower.ask() == {0: -_NOT_LEADER}, "until it is over"
        leader.lead()
        await leader.synced()
        assert await follower.answered() == {}
        assert follower.told == {0: 2}
        assert await follower.answered((1, 0), topic_id=OTHER_ID) == {1: -_NOT_LEADER}

    run(tmp_path / "d", story)


def test_bytes_that_are_waited_for_and_bytes_that_fit(tmp_path: Path) -> None:
    async def story(leader: Leader) -> None:
        leader.lead_one(1)
        leader.append(0, number=1)
        follower = _Follower(leader)
        found = await follower.answered((0, 1), (1, 0), max_bytes=BATCH_BYTES)
        assert found == {0: 1}
        assert await follower.answered((0, 2), max_bytes=BATCH_BYTES) == {1: 1}
        waiting = follower.ask((1, 1), min_bytes=2 * BATCH_BYTES)
        await _turns()
        leader.append(2)
        await _turns()
        assert not waiting.done()
        leader.append(1, number=1)
        assert await waiting == {0: 1, 1: 1}

    run(tmp_path / "d", story)


def test_a_log_that_cannot_be_read_is_no_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(leader: Leader) -> None:
        heard: list[Exception] = []
        leader.log.on_failure = heard.append

        def fail(offset: int, most_bytes: int) -> bytes:
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(leader.directory.logs[0], "batches_from", fail)
        with pytest.raises(OSError, match="Input/output error"):
            await _Follower(leader).answered((0, 0))
        assert [str(one) for one in heard] == ["[Errno 5] Input/output error"]
        assert leader.log.led[0].failure is not None

    run(tmp_path / "d", story)


def test_who_asks_for_a_partition_no_more_is_heard_of_it_no_more(tmp_path: Path) -> None:
    async def story(leader: Leader) -> None:
        leader.lead_one(1)
        follower = _Follower(leader)
        await follower.answered((0, 0), (1, 0))
        await follower.answered((0, 2))
        of = leader.partition.followers[1]
        await follower.answered(forgotten=(0,))
        heard_at = of.heard_at
        await asyncio.sleep(0.01)
        await follower.answered()  # of partition 1
        assert leader.log.led[1].partition.followers[1].heard_at > heard_at
        assert of.heard_at == heard_at

    run(tmp_path / "d", story)


def test_who_is_gone_gets_nothing(tmp_path: Path) -> None:
    async def story(leader: Leader) -> None:
        follower = _Follower(leader)
        await follower.answered((0, 0))
        waiting = follower.ask((0, 2))
        await _turns()
        assert follower.waiting is not None
        leader.followers.abandon(follower.waiting)
        leader.append(2)
        await _turns()
        assert not waiting.done()
        waiting.cancel()

    run(tmp_path / "d", story)
