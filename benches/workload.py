"""Requests as a Kafka client would frame them, and nodes with groups in them, for the benchmarks.

They are built outside of the measured time. It knows the wire only from Kafka's schemas: none of
the code under test makes its input.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable, Iterator, Sequence

from pykcoord._native import Node
from pykcoord.session import Session

HOST = "/127.0.0.1"
SESSION = Session(HOST, "PLAINTEXT")
TOPIC = "orders-placed"
TOPIC_ID = bytes(range(16))
SEED = bytes(range(32))
NOW_MS = 1_790_000_000_000
PARTITIONS = 100
COMMITTED = 5  # partitions of a commit and of a fetch
SUBSCRIPTION_BYTES = 64
ASSIGNMENT_BYTES = 48
SESSION_TIMEOUT_MS = 45_000

Frame = tuple[int, Session, bytes]
Member = tuple[str, str, int]  # group id, member id, generation id


def string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def sized(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


NULL = struct.pack(">h", -1)
_CLIENT_ID = string("consumer-billing-1")


def _request(api_key: int, version: int, body: bytes) -> bytes:
    return struct.pack(">hhi", api_key, version, 7) + _CLIENT_ID + body


def join_group(group_id: str, member_id: str) -> bytes:
    """JoinGroup v5: one protocol, of 64 bytes."""
    return _request(
        11,
        5,
        string(group_id)
        + struct.pack(">ii", SESSION_TIMEOUT_MS, 300_000)
        + string(member_id)
        + NULL
        + string("consumer")
        + struct.pack(">i", 1)
        + string("range")
        + sized(b"s" * SUBSCRIPTION_BYTES),
    )


def sync_group(member: Member) -> bytes:
    """SyncGroup v3 of a leader that is alone, with 48 bytes of assignment."""
    assignment = struct.pack(">i", 1) + string(member[1]) + sized(b"a" * ASSIGNMENT_BYTES)
    return _request(14, 3, _membership(member) + assignment)


def heartbeat(member: Member) -> bytes:
    """Heartbeat v3."""
    return _request(12, 3, _membership(member))


def offset_commit(member: Member, offset: int, first: int = 0, count: int = COMMITTED) -> bytes:
    """OffsetCommit v7 of `count` partitions."""
    partitions = b"".join(
        struct.pack(">iqi", partition, offset, -1) + string("")
        for partition in range(first, first + count)
    )
    head = struct.pack(">i", 1) + string(TOPIC) + struct.pack(">i", count)
    return _request(8, 7, _membership(member) + head + partitions)


def offset_fetch(group_id: str, count: int = COMMITTED) -> bytes:
    """OffsetFetch v5 of the same partitions."""
    head = struct.pack(">i", 1) + string(TOPIC) + struct.pack(">i", count)
    return _request(9, 5, string(group_id) + head + struct.pack(f">{count}i", *range(count)))


def _membership(member: Member) -> bytes:
    group_id, member_id, generation_id = member
    return string(group_id) + struct.pack(">i", generation_id) + string(member_id) + NULL


def batches(frames: Sequence[bytes], size: int, first_ticket: int = 1) -> list[list[Frame]]:
    """Frames as the server hands them to `Node.step`, `size` a turn, each with its ticket."""
    numbered = [(first_ticket + index, SESSION, frame) for index, frame in enumerate(frames)]
    return [numbered[at : at + size] for at in range(0, len(numbered), size)]


class Host:
    """Drives one node as the server does, on a log that is durable at once and forgotten."""

    def __init__(self, shards: int = 1) -> None:
        self.node = Node({"group_initial_rebalance_delay_ms": 0}, shards, SEED)
        self.now_ms = NOW_MS
        self.node.set_topics([(TOPIC, TOPIC_ID, PARTITIONS)])
        for shard in range(shards):
            self.node.loaded(shard, NOW_MS, 0)
        self.appends: list[tuple[int, int, int, int, int, bytes]] = []
        self._committed: list[tuple[int, int]] = []
        self._ticket = 0

    def turn(self, frames: list[Frame]) -> int:
        """One turn, and one more if it wrote records: the number of replies."""
        turn = self.node.step(self.now_ms, frames, [])
        replies = len(turn.replies)
        if turn.appends:
            ends: dict[int, int] = {}
            for shard, base_offset, count, *_ in turn.appends:
                ends[shard] = base_offset + count
            replies += len(self.node.step(self.now_ms, [], list(ends.items())).replies)
        return replies

    def ask(self, frames: Iterable[bytes], size: int = 2_000) -> Iterator[bytes]:
        """Replies without length and correlation id, in the order of the frames."""
        for batch in batches(list(frames), size, self._ticket + 1):
            self._ticket += len(batch)
            replies: dict[int, bytes] = {}
            frames_left: list[Frame] = batch
            is_due = False
            while frames_left or self._committed or is_due:
                committed, self._committed = self._committed, []
                turn = self.node.step(self.now_ms, frames_left, committed)
                frames_left = []
                # A first rebalance without a delay is a timer that is due at once.
                is_due = turn.next_timeout_ms is not None and turn.next_timeout_ms <= self.now_ms
                assert not turn.invalid, turn.invalid
                assert not turn.foreign, turn.foreign
                for ticket, reply in turn.replies:
                    replies[ticket] = reply[8:]
                for append in turn.appends:
                    self.appends.append(append)
                    self._committed.append((append[0], append[1] + append[2]))
            for ticket, _, _ in batch:
                yield replies[ticket]

    def next_ticket(self) -> int:
        """The first ticket that was never used; the caller counts on from there."""
        return self._ticket + 1

    def skip_tickets(self, count: int) -> None:
        """So many tickets were used behind this object's back."""
        self._ticket += count


def one_member_groups(host: Host, count: int, prefix: str = "billing-0") -> list[Member]:
    """Stable groups of one member, whose session timers run."""
    groups = [f"{prefix}-{index:06d}" for index in range(count)]
    asked = host.ask(join_group(group, "") for group in groups)
    ids = [_member_id(reply) for reply in asked]
    joined = list(host.ask(join_group(*pair) for pair in zip(groups, ids, strict=True)))
    members = [
        (group, member_id, _generation(reply))
        for group, member_id, reply in zip(groups, ids, joined, strict=True)
    ]
    for reply in host.ask(sync_group(member) for member in members):
        assert reply[4:6] == b"\0\0", reply
    return members


def _member_id(reply: bytes) -> str:
    """Of a JoinGroup v5 that was answered MEMBER_ID_REQUIRED (KIP-394)."""
    throttle, error, generation = struct.unpack_from(">ihi", reply)
    assert (throttle, error, generation) == (0, 79, -1), reply
    at = 10
    for _ in range(2):  # protocol, leader
        (length,) = struct.unpack_from(">h", reply, at)
        at += 2 + max(0, length)
    (length,) = struct.unpack_from(">h", reply, at)
    return reply[at + 2 : at + 2 + length].decode()


def _generation(reply: bytes) -> int:
    _, error, generation = struct.unpack_from(">ihi", reply)
    assert error == 0, reply
    return int(generation)


def shuffled(members: Sequence[Member], seed: int = 5) -> list[Member]:
    """The same members in an order that no cache foresees."""
    order = list(members)
    random.Random(seed).shuffle(order)
    return order
