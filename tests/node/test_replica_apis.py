"""What a node answers to those who follow it and to consumers of its log."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Coroutine
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from kio.schema.describe_producers.v0.request import DescribeProducersRequest, TopicRequest
from kio.schema.fetch.v18.request import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from kio.schema.list_offsets.v7.request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i32, i32Timedelta, i64

from pykcoord.clock import Clock
from pykcoord.log.protocol import Append
from pykcoord.log.replicas import ReplicaDirectory
from pykcoord.node.image import Image
from pykcoord.node.leader import LedPartition
from pykcoord.node.messages import decode, encode, response_class
from pykcoord.node.metadata_records import PartitionSet, TopicSet
from pykcoord.node.replica_apis import ReplicaApis
from pykcoord.node.store import NodeLog
from pykcoord.protocol import decode_response, encode_request

from .markers import end_marker

_TOPIC_ID, _OTHER_ID = uuid.UUID(int=5), uuid.UUID(int=6)
_RECORD = bytes([2 * 8, 0, 0, 0, 4, 0, 99, 1, 0])
_EPOCH, _WAIT_S = 3, 60.0


class _Leader:
    """One partition, led with broker 1 in the ISR: two records, of which none is acknowledged."""

    def __init__(self, path: Path) -> None:
        self.directory = ReplicaDirectory.open(path, 1 << 20)
        self.directory.begin("cluster", 9, _TOPIC_ID, 2, str(uuid.UUID(int=1)))
        self.log = NodeLog(self.directory, 2, lambda broker, epoch: True)
        self.image = Image()
        self.image.apply(TopicSet("__consumer_offsets", _TOPIC_ID))
        self.image.apply(TopicSet("orders", _OTHER_ID))
        placed = PartitionSet(_TOPIC_ID, 0, (9, 1), (9, 1), (), (), 9, _EPOCH, 1, 0)
        self.image.apply(placed)
        self.image.apply(placed._replace(topic_id=_OTHER_ID, leader=2))
        self.apis = ReplicaApis(self.log, _TOPIC_ID, lambda: self.image)
        self.log.on_progress = self.log.on_watermark = self.apis.moved
        self.lead()
        self.append(0)
        self.append(1)

    def lead(self) -> None:
        log = self.directory.open_log(0)
        self.partition = LedPartition(
            node_id=9, replicas=(9, 1), isr=(9, 1), leader_epoch=_EPOCH, partition_epoch=1,
            start=log.next_offset, min_isr=1, lag_seconds=30.0, begun_at=0.0,
        )  # fmt: skip
        self.log.lead(0, self.partition)

    def append(self, offset: int, producer: int = -1) -> None:
        append = Append(0, offset, 1, 1_000, 1_000, _RECORD, producer, 4 if producer >= 0 else -1)
        self.log.append([append], lambda committed, failed: None)

    async def fetch(
        self,
        offset: int,
        *,
        replica: int = 1,
        epoch: int = _EPOCH,
        last_epoch: int = -1,
        topic_id: uuid.UUID = _TOPIC_ID,
        wait_ms: int = 0,
        isolation: int = 0,
    ) -> Any:
        """Through the bytes of a frame, both ways; without a session."""
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=BrokerId(replica), replica_epoch=i64(4)),
            max_wait=i32Timedelta.parse(timedelta(milliseconds=wait_ms)),
            min_bytes=i32(1),
            isolation_level=i8(isolation),
            session_epoch=i32(-1),
            topics=(
                FetchTopic(
                    topic_id=topic_id,
                    partitions=(
                        FetchPartition(
                            partition=i32(0), current_leader_epoch=i32(epoch),
                            fetch_offset=i64(offset), last_fetched_epoch=i32(last_epoch),
                            partition_max_bytes=i32(1 << 20),
                        ),
                    ),
                ),
            ),
            forgotten_topics_data=(),
        )  # fmt: skip
        asked = decode(1, 18, encode_request(request, 7))
        answer = await self.apis.fetch(asked, response_class(1, 18), 18)
        frame = encode(answer, (7).to_bytes(4, "big"))
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        (topic,) = decode_response(request, frame[4:]).responses
        (found,) = topic.partitions
        return found


class _Loader:
    def replay(self, chunk: bytes) -> None:
        """What the groups make of it is not looked at."""


def _run(path: Path, story: Callable[[_Leader], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        leader = _Leader(path)
        try:
            async with asyncio.timeout(_WAIT_S):
                await story(leader)
        finally:
            leader.log.close()
            leader.directory.close()

    asyncio.run(run())


def test_a_follower_gets_what_is_not_acknowledged_and_a_consumer_does_not(tmp_path: Path) -> None:
    async def story(leader: _Leader) -> None:
        found = await leader.fetch(0)
        assert (found.error_code.name, found.high_watermark) == ("none", 0)
        assert len(found.records) == 2 * (61 + len(_RECORD))
        assert not (await leader.fetch(0, replica=-1)).records
        leader.partition.synced = 2
        await leader.fetch(1)  # it has the first one now
        found = await leader.fetch(0, replica=-1)
        assert (found.high_watermark, len(found.records)) == (1, 61 + len(_RECORD))

    _run(tmp_path / "d", story)


def test_a_follower_waits_for_what_comes(tmp_path: Path) -> None:
    async def story(leader: _Leader) -> None:
        waiting = asyncio.create_task(leader.fetch(2, wait_ms=50_000))
        await asyncio.sleep(0)
        leader.append(2)
        assert (await waiting).records
        assert not (await leader.fetch(3, wait_ms=1)).records

    _run(tmp_path / "d", story)


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"epoch": _EPOCH - 1}, "fenced_leader_epoch"),
        ({"epoch": _EPOCH + 1}, "unknown_leader_epoch"),
        ({"offset": 3}, "offset_out_of_range"),
        ({"last_epoch": _EPOCH + 1}, "offset_out_of_range"),
        ({"topic_id": _OTHER_ID}, "not_leader_or_follower"),
        ({"topic_id": uuid.UUID(int=77)}, "unknown_topic_id"),
        ({"replica": 5}, "unknown_topic_or_partition"),
    ],
)
def test_what_is_refused(tmp_path: Path, asked: dict[str, Any], error: str) -> None:
    async def story(leader: _Leader) -> None:
        found = await leader.fetch(**{"offset": 0, **asked})
        assert found.error_code.name == error
        if asked.get("topic_id") == _OTHER_ID:
            assert (found.current_leader.leader_id, found.current_leader.leader_epoch) == (2, 3)

    _run(tmp_path / "d", story)


def test_a_follower_of_another_log_is_told_where_they_part(tmp_path: Path) -> None:
    async def story(leader: _Leader) -> None:
        found = await leader.fetch(2, last_epoch=1)
        assert (found.diverging_epoch.epoch, found.diverging_epoch.end_offset) == (1, 0)
        assert found.error_code.name == "none"
        assert not found.records
        assert leader.partition.followers[1].end == -1  # it has nothing that counts

    _run(tmp_path / "d", story)


def test_a_follower_that_knows_of_the_leader_first_waits_for_it(tmp_path: Path) -> None:
    async def story(leader: _Leader) -> None:
        leader.log.release(0)
        waiting = asyncio.create_task(leader.fetch(0))
        await asyncio.sleep(0)
        leader.lead()
        leader.apis.image_moved()
        assert (await waiting).error_code.name == "none"

    _run(tmp_path / "d", story)


def test_who_reads_committed_gets_what_is_stable_and_hears_what_was_aborted(
    tmp_path: Path,
) -> None:
    async def story(leader: _Leader) -> None:
        async def acknowledge(end: int) -> None:
            leader.partition.synced = end
            await leader.fetch(end)

        def producers(name: str, number: int = 0) -> Any:
            asked = TopicRequest(name=TopicName(name), partition_indexes=(i32(number),))
            request = DescribeProducersRequest(topics=(asked,))
            read = decode(61, 0, encode_request(request, 7))
            answer = leader.apis.describe_producers(read, response_class(61, 0))
            frame = encode(answer, (7).to_bytes(4, "big"))
            return decode_response(request, frame[4:]).topics[0].partitions[0]

        committed = {"replica": -1, "isolation": 1}
        leader.append(2, producer=40)
        await acknowledge(3)
        assert (await leader.fetch(0, **committed)).error_code.name == "not_leader_or_follower"
        assert producers("__consumer_offsets").error_code.name == "not_leader_or_follower"
        leader.log.take(0, _Loader)
        found = await leader.fetch(0, **committed)
        assert (found.high_watermark, found.last_stable_offset) == (3, 2)
        assert (len(found.records), found.aborted_transactions) == (2 * (61 + len(_RECORD)), ())
        found = await leader.fetch(0, replica=-1)
        assert (len(found.records), found.aborted_transactions) == (3 * (61 + len(_RECORD)), None)
        (one,) = producers("__consumer_offsets").active_producers
        assert (one.producer_id, one.producer_epoch, one.current_txn_start_offset) == (40, 4, 2)
        marker = end_marker(3, (40, 4), 0, coordinator_epoch=1, at_ms=Clock().now_ms())
        leader.log.append([marker], lambda committed, failed: None)
        await acknowledge(4)
        found = await leader.fetch(2, **committed)
        assert found.last_stable_offset == 4
        (aborted,) = found.aborted_transactions
        assert (aborted.producer_id, aborted.first_offset) == (40, 2)
        (one,) = producers("__consumer_offsets").active_producers
        assert (one.coordinator_epoch, one.current_txn_start_offset) == (1, -1)
        assert producers("orders").error_code.name == "not_leader_or_follower"
        assert producers("orders", 9).error_code.name == "unknown_topic_or_partition"

    _run(tmp_path / "d", story)


def test_ends_are_told_up_to_the_high_watermark(tmp_path: Path) -> None:
    async def story(leader: _Leader) -> None:
        def ask(timestamp: int, name: str = "__consumer_offsets") -> Any:
            request = ListOffsetsRequest(
                replica_id=BrokerId(-1),
                isolation_level=i8(0),
                topics=(
                    ListOffsetsTopic(
                        name=TopicName(name),
                        partitions=(
                            ListOffsetsPartition(partition_index=i32(0), timestamp=i64(timestamp)),
                        ),
                    ),
                ),
            )
            asked = decode(2, 7, encode_request(request, 7))
            answer = leader.apis.list_offsets(asked, response_class(2, 7), 7)
            frame = encode(answer, (7).to_bytes(4, "big"))
            return decode_response(request, frame[4:]).topics[0].partitions[0]

        assert (ask(-1).offset, ask(-2).offset) == (0, 0)
        leader.partition.synced = 2
        await leader.fetch(2)
        assert (ask(-1).offset, ask(-1).leader_epoch) == (2, _EPOCH)
        assert ask(-1, "orders").error_code.name == "not_leader_or_follower"

    _run(tmp_path / "d", story)
