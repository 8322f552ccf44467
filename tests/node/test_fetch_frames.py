"""Followers' Fetch as bytes: read and written as kio does."""

from __future__ import annotations

import importlib
import random
import uuid
from datetime import timedelta
from typing import Any

import pytest
from kio.schema.types import BrokerId
from kio.static.primitive import i32, i32Timedelta, i64

from pykcoord.node._fetch_frames import Asked, Partition, answer
from pykcoord.protocol import decode_response, encode_request

_VERSIONS = (15, 16, 17, 18)


def _request(version: int, chance: random.Random) -> Any:
    kinds = importlib.import_module(f"kio.schema.fetch.v{version}.request")

    def partition() -> Any:
        more: dict[str, Any] = {}
        if version >= 17 and chance.random() < 0.5:
            more["replica_directory_id"] = uuid.UUID(int=chance.getrandbits(128))
        return kinds.FetchPartition(
            partition=i32(chance.randrange(1 << 31)),
            current_leader_epoch=i32(chance.randrange(-1, 1 << 31)),
            fetch_offset=i64(chance.randrange(1 << 62)),
            last_fetched_epoch=i32(chance.randrange(-1, 1 << 31)),
            log_start_offset=i64(chance.randrange(-1, 1 << 62)),
            partition_max_bytes=i32(chance.randrange(1 << 31)),
            **more,
        )

    return kinds.FetchRequest(
        cluster_id=chance.choice([None, "cluster"]),
        replica_state=kinds.ReplicaState(
            replica_id=BrokerId(chance.randrange(-1, 9)),
            replica_epoch=i64(chance.randrange(-1, 1 << 62)),
        ),
        max_wait=i32Timedelta.parse(timedelta(milliseconds=chance.randrange(1 << 20))),
        min_bytes=i32(chance.randrange(1 << 31)),
        max_bytes=i32(chance.randrange(1 << 31)),
        session_id=i32(chance.randrange(1 << 31)),
        session_epoch=i32(chance.randrange(-1, 1 << 31)),
        rack_id=chance.choice(["", "rack-" * 60]),
        topics=tuple(
            kinds.FetchTopic(
                topic_id=uuid.UUID(int=chance.getrandbits(128)),
                partitions=tuple(partition() for _ in range(chance.randrange(4))),
            )
            for _ in range(chance.randrange(3))
        ),
        forgotten_topics_data=tuple(
            kinds.ForgottenTopic(
                topic_id=uuid.UUID(int=chance.getrandbits(128)),
                partitions=tuple(i32(one) for one in range(chance.randrange(4))),
            )
            for _ in range(chance.randrange(3))
        ),
    )


@pytest.mark.parametrize("version", _VERSIONS)
def test_requests_are_read_as_they_were_meant(version: int) -> None:
    chance = random.Random(version)
    for _ in range(200):
        request = _request(version, chance)
        asked = Asked(encode_request(request, 7))
        assert (asked.replica, asked.replica_epoch) == (
            request.replica_state.replica_id, request.replica_state.replica_epoch,
        )  # fmt: skip
        assert timedelta(milliseconds=asked.wait_ms) == request.max_wait
        assert (asked.min_bytes, asked.max_bytes) == (request.min_bytes, request.max_bytes)
        assert (asked.session_id, asked.session_epoch) == (
            request.session_id, request.session_epoch,
        )  # fmt: skip
        assert asked.named == [
            (
                topic.topic_id.bytes, one.partition, one.current_leader_epoch, one.fetch_offset,
                one.last_fetched_epoch, one.partition_max_bytes,
            )
            for topic in request.topics
            for one in topic.partitions
        ]  # fmt: skip
        assert asked.forgotten == [
            (topic.topic_id.bytes, number)
            for topic in request.forgotten_topics_data
            for number in topic.partitions
        ]


def test_a_request_that_is_cut_or_changed_is_refused_or_read() -> None:
    chance = random.Random(1)
    for _ in range(50):
        frame = encode_request(_request(18, chance), 7)
        for end in range(len(frame)):
            with pytest.raises(ValueError, match=r"claimed|left over|null"):
                Asked(frame[:end])
        changed = bytearray(frame)
        for _ in range(4):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        try:
            asked = Asked(bytes(changed))
        except ValueError:
            continue
        assert len(asked.named) <= len(frame)


@pytest.mark.parametrize("version", _VERSIONS)
def test_answers_are_read_as_they_were_meant(version: int) -> None:
    chance = random.Random(version)
    request = _request(version, chance)

    def partition() -> Partition:
        return (
            chance.randrange(1 << 31), chance.choice([0, 6, 76]), chance.randrange(-1, 1 << 62),
            chance.randrange(-1, 1 << 62), chance.randrange(-1, 1 << 62),
            chance.randbytes(chance.choice([0, 1, 100, 200, 20_000])),
            chance.choice([None, (3, 1 << 40)]), chance.choice([None, (1, 9)]),
        )  # fmt: skip

    for _ in range(100):
        topics = [
            (chance.randbytes(16), [partition() for _ in range(chance.randrange(4))])
            for _ in range(chance.randrange(3))
        ]
        frame = answer((7).to_bytes(4, "big"), 70, 1 << 30, topics)
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        read = decode_response(request, frame[4:])
        assert (read.error_code.value, read.session_id) == (70, 1 << 30)
        assert [
            (
                topic.topic_id.bytes,
                [
                    (
                        one.partition_index, one.error_code.value, one.high_watermark,
                        one.last_stable_offset, one.log_start_offset, one.records or b"",
                        None if one.diverging_epoch.epoch < 0
                        else (one.diverging_epoch.epoch, one.diverging_epoch.end_offset),
                        None if one.current_leader.leader_id < 0
                        else (one.current_leader.leader_id, one.current_leader.leader_epoch),
                    )
                    for one in topic.partitions
                ],
            )
            for topic in read.responses
        ] == topics  # fmt: skip
        assert all(
            one.aborted_transactions is None and one.preferred_read_replica == -1
            for topic in read.responses
            for one in topic.partitions
        )
