"""A node that leads a partition, without a cluster: requests and answers as bytes."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Coroutine
from datetime import timedelta
from pathlib import Path
from typing import Any

from kio.schema.fetch.v18.request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ReplicaState,
)
from kio.schema.types import BrokerId
from kio.static.primitive import i8, i32, i32Timedelta, i64

from pykcoord.log.protocol import Append
from pykcoord.log.replicas import ReplicaDirectory
from pykcoord.node._fetch_frames import Asked
from pykcoord.node.follower_fetches import FollowerFetches
from pykcoord.node.image import Image
from pykcoord.node.leader import LedPartition
from pykcoord.node.messages import decode, encode, response_class
from pykcoord.node.metadata_records import PartitionSet, TopicSet
from pykcoord.node.replica_apis import ReplicaApis
from pykcoord.node.store import NodeLog
from pykcoord.protocol import decode_response, encode_request

TOPIC_ID, OTHER_ID = uuid.UUID(int=5), uuid.UUID(int=6)
RECORD = bytes([2 * 8, 0, 0, 0, 4, 0, 99, 1, 0])
BATCH_BYTES = 61 + len(RECORD)
EPOCH, WAIT_S = 3, 60.0


class Leader:
    """One partition, led with broker 1 in the ISR: two records, of which none is acknowledged."""

    def __init__(self, path: Path) -> None:
        self.directory = ReplicaDirectory.open(path, 1 << 20)
        self.directory.begin("cluster", 9, TOPIC_ID, 2, str(uuid.UUID(int=1)))
        self.log = NodeLog(self.directory, 2, lambda broker, epoch: True)
        self.image = Image()
        self.image.apply(TopicSet("__consumer_offsets", TOPIC_ID))
        self.image.apply(TopicSet("orders", OTHER_ID))
        placed = PartitionSet(TOPIC_ID, 0, (9, 1), (9, 1), (), (), 9, EPOCH, 1, 0)
        self.image.apply(placed)
        self.image.apply(placed._replace(topic_id=OTHER_ID, leader=2))
        self.apis = ReplicaApis(self.log, TOPIC_ID, lambda: self.image)
        self.followers = FollowerFetches(self.log, TOPIC_ID, lambda: self.image)
        self.log.on_append = self.followers.appended
        self.log.on_led = self.followers.led_otherwise
        self.log.on_watermark = self._watermarks_moved
        self.lead()
        self.append(0)
        self.append(1)

    def _watermarks_moved(self, numbers: list[int]) -> None:
        self.apis.moved(numbers)
        self.followers.watermarks_moved(numbers)

    def lead(self) -> None:
        """Partition 0."""
        self.partition = self.lead_one(0)

    def lead_one(self, number: int) -> LedPartition:
        log = self.directory.open_log(number)
        partition = LedPartition(
            node_id=9, replicas=(9, 1), isr=(9, 1), leader_epoch=EPOCH, partition_epoch=1,
            start=log.next_offset, min_isr=1, lag_seconds=30.0, begun_at=0.0,
        )  # fmt: skip
        self.log.lead(number, partition)
        return partition

    def append(self, offset: int, producer: int = -1, number: int = 0) -> None:
        """One record."""
        epoch = 4 if producer >= 0 else -1
        append = Append(number, offset, 1, 1_000, 1_000, RECORD, producer, epoch)
        self.log.append([append], lambda committed, failed: None)

    async def synced(self) -> None:
        """Until all of partition 0 is on the disk."""
        while self.partition.synced < self.partition.end:
            await asyncio.sleep(0)

    async def fetch(
        self,
        offset: int,
        *,
        replica: int = 1,
        epoch: int = EPOCH,
        last_epoch: int = -1,
        topic_id: uuid.UUID = TOPIC_ID,
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
        frame = await self._answered(encode_request(request, 7))
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        (topic,) = decode_response(request, frame[4:]).responses
        (found,) = topic.partitions
        return found

    async def _answered(self, asked: bytes) -> bytes:
        if (of_follower := Asked(asked)).replica < 0:
            answer = await self.apis.fetch(decode(1, 18, asked), response_class(1, 18), 18)
            return encode(answer, (7).to_bytes(4, "big"))
        replied: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        fetch = self.followers.take(asked[4:8], of_follower, replied.set_result)
        assert (fetch is None) == replied.done()
        return await replied


def run(path: Path, story: Callable[[Leader], Coroutine[Any, Any, None]]) -> None:
    """The story of a leader in `path`."""

    async def told() -> None:
        leader = Leader(path)
        try:
            async with asyncio.timeout(WAIT_S):
                await story(leader)
        finally:
            leader.log.close()
            leader.directory.close()

    asyncio.run(told())
