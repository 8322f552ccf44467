"""Members of the consumer protocol as rows: a shard behind Arrow batches serves them, and goes on
from a checkpoint in the middle of a revocation."""

from __future__ import annotations

import struct
import uuid
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from support.story import SEED, START_MS, row, string

from pykcoord import ArrowShard, Config
from pykcoord.arrow import REQUEST

HEARTBEAT = (68, 1)
TOPIC, PARTITIONS = "orders", 4
CONFIG = Config(group_consumer_assignment_interval_ms=0, group_consumer_session_timeout_ms=45_000)
GROUP = "billing"
RECORD_KINDS = {3, 5, 6, 7, 8}


@dataclass(frozen=True)
class Beaten:
    error_code: int
    epoch: int
    topic_id: uuid.UUID | None
    partitions: list[int] | None
    """None: nothing new."""


def beat_body(
    member_id: str, epoch: int, owned: list[int] | None, topic_id: uuid.UUID | None
) -> bytes:
    """ConsumerGroupHeartbeat v1; the first one tells what is subscribed to."""
    is_first = epoch == 0
    body = _text(GROUP) + _text(member_id) + struct.pack(">i", epoch) + b"\0\0"
    body += struct.pack(">i", 60_000 if is_first else -1)
    body += b"\2" + _text(TOPIC) if is_first else b"\0"
    body += b"\0\0"  # no expression, no assignor
    if owned is None:
        return body + b"\0\0"
    if not owned or topic_id is None:
        return body + b"\1\0"
    numbers = b"".join(struct.pack(">i", each) for each in owned)
    return body + b"\2" + topic_id.bytes + bytes([len(owned) + 1]) + numbers + b"\0\0"


def _text(text: str) -> bytes:
    return bytes([len(text) + 1]) + text.encode()


def beaten(body: bytes) -> Beaten:
    at = 4  # the throttle time
    (error_code,) = struct.unpack_from(">h", body, at)
    at += 2
    for _ in range(2):  # message and member id
        at += 1 + max(0, body[at] - 1)
    epoch, _interval = struct.unpack_from(">ii", body, at)
    at += 8
    is_given = body[at] == 1
    if not is_given:
        return Beaten(error_code, epoch, None, None)
    if body[at + 1] == 1:
        return Beaten(error_code, epoch, None, [])
    topic_id, count = uuid.UUID(bytes=body[at + 2 : at + 18]), body[at + 18] - 1
    return Beaten(
        error_code, epoch, topic_id, list(struct.unpack_from(f">{count}i", body, at + 19))
    )


class Group:
    """Members that heartbeat as rows, in order, and what they were told."""

    def __init__(self, shard: ArrowShard) -> None:
        self.shard = shard
        self.seq = 0
        self.told: list[dict[str, Any]] = []
        self.topic_id: uuid.UUID | None = None

    def beat(
        self, at_ms: int, member_id: str, epoch: int, owned: list[int] | None = None
    ) -> Beaten:
        if epoch == 0:
            owned = []
        body = beat_body(member_id, epoch, owned, self.topic_id)
        asked = row(self.seq, START_MS + at_ms, GROUP, HEARTBEAT, body)
        envelope = self.shard.process(pa.RecordBatch.from_pylist([asked], REQUEST))
        told = envelope.to_pylist()
        self.told += told
        (answer,) = (one for one in told if one["seq"] == self.seq and one["kind"] == 0)
        self.seq += 1
        found = beaten(answer["body"])
        self.topic_id = found.topic_id or self.topic_id
        return found

    def advance(self, at_ms: int) -> pa.RecordBatch:
        envelope = self.shard.advance(START_MS + at_ms)
        self.told += envelope.to_pylist()
        return envelope


def new_shard() -> ArrowShard:
    return ArrowShard(CONFIG, topics={TOPIC: PARTITIONS}, seed=SEED)


def a_second_member_joins(group: Group) -> None:
    """The first one has not given up its half yet."""
    first = group.beat(0, "a", 0)
    assert (first.error_code, first.epoch, first.partitions) == (0, 2, [0, 1, 2, 3])
    second = group.beat(10, "b", 0)
    assert (second.error_code, second.epoch, second.partitions) == (0, 3, [])
    asked = group.beat(20, "a", 2)
    assert (asked.epoch, asked.partitions) == (2, [0, 1])


def they_come_to_rest(group: Group) -> None:
    assert group.beat(30, "b", 3).partitions is None
    assert group.beat(40, "a", 2, [0, 1]).epoch == 3
    assert group.beat(50, "b", 3).partitions == [2, 3]
    # The first falls silent; the second, which is heard of, gets all.
    assert group.beat(40_000, "b", 3).error_code == 0
    ended = group.advance(45_040)
    assert ended.num_rows
    assert group.beat(45_050, "b", 3).partitions == [0, 1, 2, 3]


def test_members_are_served_as_rows() -> None:
    group = Group(new_shard())
    a_second_member_joins(group)
    they_come_to_rest(group)
    assert group.beat(45_060, "a", 3).error_code == 25
    assert group.beat(45_070, "b", -1).epoch == -1
    keys = [one["key"] for one in group.told if one["kind"] == 1]
    assert {struct.unpack_from(">h", key)[0] for key in keys} == RECORD_KINDS
    assert all(string(GROUP) == key[2 : 4 + len(GROUP)] for key in keys)


def test_a_checkpoint_in_mid_revocation_is_gone_on_from() -> None:
    """Epochs, targets, who has yet to give up what, and the sessions' time."""
    whole, begun = Group(new_shard()), Group(new_shard())
    for group in (whole, begun):
        a_second_member_joins(group)
    assert begun.told == whole.told
    resumed = Group(new_shard())
    resumed.shard.resume(begun.shard.checkpoint())
    resumed.seq, resumed.topic_id = begun.seq, begun.topic_id
    for group in (whole, resumed):
        group.told = []
        they_come_to_rest(group)
    assert resumed.told == whole.told


def test_its_records_make_the_same_group() -> None:
    """In a shard that reads them as a log, and whose members never hear of it."""
    group = Group(new_shard())
    assert group.shard.take_batches() == b""
    a_second_member_joins(group)
    successor = Group(new_shard())
    successor.shard.replay(group.shard.take_batches(), group.shard.next_offset)
    successor.topic_id = group.topic_id
    they_come_to_rest(successor)
