"""What a node answers to those who follow it and to consumers of its log."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import Any

import pytest
from kio.index import load_request_schema
from kio.schema.describe_producers.v0.request import DescribeProducersRequest, TopicRequest
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i32, i64

from pykcoord.clock import Clock
from pykcoord.node.messages import decode, encode, nested_of, response_class
from pykcoord.protocol import decode_response, encode_request

from .led import BATCH_BYTES, EPOCH, OTHER_ID, RECORD, Leader, run
from .markers import end_marker


class _Loader:
    def replay(self, chunk: bytes) -> None:
        """What the groups make of it is not looked at."""


def test_a_follower_gets_what_is_not_acknowledged_and_a_consumer_does_not(tmp_path: Path) -> None:
    async def story(leader: Leader) -> None:
        found = await leader.fetch(0)
        assert (found.error_code.name, found.high_watermark) == ("none", 0)
        assert len(found.records) == 2 * (61 + len(RECORD))
        assert not (await leader.fetch(0, replica=-1)).records
        leader.partition.synced = 2
        await leader.fetch(1)  # it has the first one now
        found = await leader.fetch(0, replica=-1)
        assert (found.high_watermark, len(found.records)) == (1, 61 + len(RECORD))

    run(tmp_path / "d", story)


def test_a_follower_waits_for_what_comes(tmp_path: Path) -> None:
    async def story(leader: Leader) -> None:
        waiting = asyncio.create_task(leader.fetch(2, wait_ms=50_000))
        await asyncio.sleep(0)
        leader.append(2)
        assert (await waiting).records
        assert not (await leader.fetch(3, wait_ms=1)).records

    run(tmp_path / "d", story)


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"epoch": EPOCH - 1}, "fenced_leader_epoch"),
        ({"epoch": EPOCH + 1}, "unknown_leader_epoch"),
        ({"offset": 3}, "offset_out_of_range"),
        ({"last_epoch": EPOCH + 1}, "offset_out_of_range"),
        ({"topic_id": OTHER_ID}, "not_leader_or_follower"),
        ({"topic_id": uuid.UUID(int=77)}, "unknown_topic_id"),
        ({"replica": 5}, "unknown_topic_or_partition"),
    ],
)
def test_what_is_refused(tmp_path: Path, asked: dict[str, Any], error: str) -> None:
    async def story(leader: Leader) -> None:
        found = await leader.fetch(**{"offset": 0, **asked})
        assert found.error_code.name == error
        if asked.get("topic_id") == OTHER_ID:
            assert (found.current_leader.leader_id, found.current_leader.leader_epoch) == (2, 3)

    run(tmp_path / "d", story)


def test_a_follower_of_another_log_is_told_where_they_part(tmp_path: Path) -> None:
    async def story(leader: Leader) -> None:
        found = await leader.fetch(2, last_epoch=1)
        assert (found.diverging_epoch.epoch, found.diverging_epoch.end_offset) == (1, 0)
        assert found.error_code.name == "none"
        assert not found.records
        assert leader.partition.followers[1].end == -1  # it has nothing that counts

    run(tmp_path / "d", story)


def test_a_follower_that_knows_of_the_leader_first_waits_for_it(tmp_path: Path) -> None:
    async def story(leader: Leader) -> None:
        leader.log.release(0)
        waiting = asyncio.create_task(leader.fetch(0))
        await asyncio.sleep(0)
        leader.lead()
        leader.followers.image_moved()
        assert (await waiting).error_code.name == "none"

    run(tmp_path / "d", story)


def test_who_reads_committed_gets_what_is_stable_and_hears_what_was_aborted(
    tmp_path: Path,
) -> None:
    async def story(leader: Leader) -> None:
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
        assert (len(found.records), found.aborted_transactions) == (2 * (61 + len(RECORD)), ())
        found = await leader.fetch(0, replica=-1)
        assert (len(found.records), found.aborted_transactions) == (3 * (61 + len(RECORD)), None)
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

    run(tmp_path / "d", story)


def test_an_answer_is_bounded_whatever_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(leader: Leader) -> None:
        monkeypatch.setattr("pykcoord.node.follower_fetches.MOST_BYTES", BATCH_BYTES)
        await leader.synced()
        assert len((await leader.fetch(0)).records) == BATCH_BYTES
        await leader.fetch(2)
        assert len((await leader.fetch(0, replica=-1)).records) == BATCH_BYTES

    run(tmp_path / "d", story)


def test_what_the_leader_before_told_of_is_never_out_of_range(tmp_path: Path) -> None:
    async def story(leader: Leader) -> None:
        await leader.synced()
        await leader.fetch(2)
        leader.lead()  # again: the high watermark is not known yet
        assert leader.partition.high_watermark == 0
        found = await leader.fetch(2, replica=-1)
        assert (found.error_code.name, found.records) == ("none", b"")
        assert (await leader.fetch(3, replica=-1)).error_code.name == "offset_out_of_range"
        assert _ends(leader, -1).error_code.name == "offset_not_available"
        assert _ends(leader, -1, version=4).error_code.name == "leader_not_available"
        assert _ends(leader, -1, replica=1).offset == 2
        assert _ends(leader, -2).offset == 0
        await leader.fetch(2)
        assert _ends(leader, -1).offset == 2

    run(tmp_path / "d", story)


def test_ends_are_told_up_to_the_high_watermark(tmp_path: Path) -> None:
    async def story(leader: Leader) -> None:
        leader.partition.synced = 2
        await leader.fetch(1)
        assert (_ends(leader, -1).offset, _ends(leader, -2).offset) == (1, 0)
        assert _ends(leader, -1, replica=1).offset == 2
        await leader.fetch(2)
        assert (_ends(leader, -1).offset, _ends(leader, -1).leader_epoch) == (2, EPOCH)
        assert _ends(leader, -1, "orders").error_code.name == "not_leader_or_follower"

    run(tmp_path / "d", story)


def _ends(
    leader: Leader,
    timestamp: int,
    name: str = "__consumer_offsets",
    version: int = 7,
    replica: int = -1,
) -> Any:
    kind: Any = load_request_schema(2, version)
    of_topic = nested_of(kind, "topics")
    asked = nested_of(of_topic, "partitions")(partition_index=i32(0), timestamp=i64(timestamp))
    topic = of_topic(name=TopicName(name), partitions=(asked,))
    request = kind(replica_id=BrokerId(replica), isolation_level=i8(0), topics=(topic,))
    read = decode(2, version, encode_request(request, 7))
    answer = leader.apis.list_offsets(read, response_class(2, version), version)
    frame = encode(answer, (7).to_bytes(4, "big"))
    return decode_response(request, frame[4:]).topics[0].partitions[0]
