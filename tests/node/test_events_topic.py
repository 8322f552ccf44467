"""The topic of group events at a node of a Kafka cluster, whose brokers do not know it."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import uuid
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from kio.index import load_request_schema
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v18.request import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from kio.schema.list_offsets.v7.request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i32, i32Timedelta, i64

from pykcoord._native import merge_events
from pykcoord.log.event_keeping import FileKeeper
from pykcoord.log.events import EVENTS_TOPIC, EventLimits, decode_batches
from pykcoord.log.replicas import ReplicaDirectory
from pykcoord.node.apis import NodeApis
from pykcoord.node.image import Image
from pykcoord.node.messages import decode, encode, nested_of, response_class
from pykcoord.node.replica_apis import ReplicaApis
from pykcoord.node.store import NodeLog
from pykcoord.protocol import decode_response, encode_request
from pykcoord.recorded import EventFiles, Recorded
from pykcoord.server.api.events_topic import EVENTS_TOPIC_ID, EventsTopic

_NODE, _SHARDS = 9, 3
_WAIT_S = 60.0


@pytest.fixture
def events(tmp_path: Path) -> EventsTopic:
    """Three events in partition 1."""
    keeper = FileKeeper(tmp_path, EventLimits(1 << 20, 1 << 40, 1 << 30, 1 << 20), merge_events)
    records = [(at, b"billing", json.dumps({"kind": "made", "n": at}).encode()) for at in (5, 6, 7)]
    assert keeper.append({1: records}) == {}
    return EventsTopic(Recorded(EventFiles(tmp_path), _SHARDS))


class _Brokers:
    """The brokers, as they are asked: each topic that is named is there with one partition, but
    for that of events."""

    def __init__(self) -> None:
        self.asked: list[list[Any]] = []

    async def ask(self, frame: bytes) -> bytes:
        version = int.from_bytes(frame[2:4])
        request = decode(3, version, frame)
        self.asked.append([getattr(one, "name", None) for one in request.topics or ()])
        kind = response_class(3, version)
        of_topic = nested_of(kind, "topics")
        topics = tuple(
            of_topic(
                error_code=ErrorCode.none, name=one.name, partitions=(),
                **({"topic_id": uuid.UUID(int=5)} if version >= 10 else {}),
            )
            for one in request.topics or ()
        )  # fmt: skip
        fields: dict[str, Any] = {"brokers": (), "controller_id": BrokerId(1), "topics": topics}
        if version >= 3:
            fields["throttle_time"] = i32Timedelta.parse(timedelta(0))
        if version >= 13:
            fields["error_code"] = ErrorCode.none
        return encode(kind(**fields), frame[4:8])[4:]


def metadata(events: EventsTopic, version: int, topics: Sequence[Any]) -> tuple[Any, _Brokers]:
    """The answer, through the bytes of frames, and the brokers that were asked."""
    kind: Any = load_request_schema(3, version)
    of_topic = nested_of(kind, "topics")
    named = tuple(
        of_topic(name=one, **({"topic_id": None} if version >= 10 else {}))
        if isinstance(one, str)
        else of_topic(name=None, topic_id=one)
        for one in topics
    )
    more = {
        one.name: False
        for one in dataclasses.fields(kind)
        if one.name.startswith(("allow_", "include_"))
    }
    request = kind(topics=named, **more)
    brokers, answers = _Brokers(), []
    answered = asyncio.Event()

    def reply(ticket: int, frame: bytes | bytearray) -> None:
        answers.append(bytes(frame))
        answered.set()

    async def run() -> None:
        apis: Any = NodeApis(
            reply, lambda ticket, reason: pytest.fail(reason), image=Image, forwarding=brokers,
            replicas=None, followers=None, versions=dict, features=(), cluster_id="c",
            node_id=_NODE, ask_controller=None, events=events,
        )  # type: ignore[arg-type]  # fmt: skip
        apis.handle(None, 1, encode_request(request, 7))
        async with asyncio.timeout(_WAIT_S):
            await answered.wait()

    asyncio.run(run())
    (frame,) = answers
    assert int.from_bytes(frame[:4]) == len(frame) - 4
    return decode_response(request, frame[4:]), brokers


@pytest.mark.parametrize("version", [1, 5, 9, 12, 13])
def test_who_names_the_topic_hears_that_this_node_leads_it(
    events: EventsTopic, version: int
) -> None:
    answer, brokers = metadata(events, version, ["orders", EVENTS_TOPIC])
    # A broker that is asked for it might create it.
    assert brokers.asked == [["orders"]]
    assert [one.name for one in answer.topics] == ["orders", EVENTS_TOPIC]
    topic = answer.topics[1]
    assert topic.is_internal
    assert [(one.partition_index, one.leader_id) for one in topic.partitions] == [
        (number, _NODE) for number in range(_SHARDS)
    ]
    if version >= 10:
        assert topic.topic_id == EVENTS_TOPIC_ID


def test_it_is_found_by_its_id_too_and_is_in_no_list(events: EventsTopic) -> None:
    answer, brokers = metadata(events, 12, [EVENTS_TOPIC_ID])
    assert brokers.asked == [[]]
    assert [one.name for one in answer.topics] == [EVENTS_TOPIC]
    answer, brokers = metadata(events, 12, ["orders"])
    assert [one.name for one in answer.topics] == ["orders"]


def _replicas(path: Path, events: EventsTopic) -> tuple[ReplicaApis, ReplicaDirectory]:
    directory = ReplicaDirectory.open(path / "replicas", 1 << 20)
    directory.begin("cluster", _NODE, uuid.UUID(int=5), _SHARDS, str(uuid.UUID(int=1)))
    log = NodeLog(directory, _SHARDS, lambda broker, epoch: True)
    return ReplicaApis(log, uuid.UUID(int=5), Image, events), directory


def fetched(replicas: ReplicaApis, partition: int, offset: int) -> Any:
    asked = FetchPartition(
        partition=i32(partition), current_leader_epoch=i32(-1), fetch_offset=i64(offset),
        last_fetched_epoch=i32(-1), partition_max_bytes=i32(1 << 20),
    )  # fmt: skip
    request = FetchRequest(
        replica_state=ReplicaState(replica_id=BrokerId(-1), replica_epoch=i64(-1)),
        max_wait=i32Timedelta.parse(timedelta(milliseconds=1)), min_bytes=i32(1),
        isolation_level=i8(0), session_epoch=i32(-1),
        topics=(FetchTopic(topic_id=EVENTS_TOPIC_ID, partitions=(asked,)),),
        forgotten_topics_data=(),
    )  # fmt: skip

    async def ask() -> Any:
        read = decode(1, 18, encode_request(request, 7))
        return await replicas.fetch(read, response_class(1, 18), 18)

    frame = encode(asyncio.run(ask()), (7).to_bytes(4, "big"))
    return decode_response(request, frame[4:]).responses[0].partitions[0]


def offset(replicas: ReplicaApis, partition: int, timestamp: int) -> tuple[str, int, int]:
    asked = ListOffsetsPartition(
        partition_index=i32(partition), current_leader_epoch=i32(-1), timestamp=i64(timestamp)
    )
    topic = ListOffsetsTopic(name=TopicName(EVENTS_TOPIC), partitions=(asked,))
    request = ListOffsetsRequest(
        replica_id=BrokerId(-1), isolation_level=i8(0), topics=(topic,)
    )  # fmt: skip
    read = decode(2, 7, encode_request(request, 7))
    frame = encode(replicas.list_offsets(read, response_class(2, 7), 7), b"\0\0\0\7")
    found = decode_response(request, frame[4:]).topics[0].partitions[0]
    return found.error_code.name, int(found.offset), int(found.timestamp)


def test_what_the_node_kept_is_read_as_any_topic_is(events: EventsTopic, tmp_path: Path) -> None:
    replicas, directory = _replicas(tmp_path, events)
    try:
        found = fetched(replicas, 1, 1)
        assert (found.error_code.name, found.high_watermark) == ("none", 3)
        told = [one for _, records in decode_batches(found.records) for one in records]
        assert [json.loads(one.value)["n"] for one in told if one.offset >= 1] == [6, 7]
        assert fetched(replicas, 1, 3).records == b""
        assert fetched(replicas, 0, 0).records == b""
        assert fetched(replicas, 1, 4).error_code.name == "offset_out_of_range"
        assert fetched(replicas, 7, 0).error_code.name == "unknown_topic_or_partition"
        assert offset(replicas, 1, -2) == ("none", 0, -1)
        assert offset(replicas, 1, -1) == ("none", 3, -1)
        assert offset(replicas, 1, 6) == ("none", 1, 6)
        assert offset(replicas, 7, -1)[0] == "unknown_topic_or_partition"
    finally:
        directory.close()
