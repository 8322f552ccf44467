"""A random story of clients and one shard: requests and answers, from a seed.

It is told once, as frames to `Shard.step`; `requests` are the same as rows of
`pykcoord.arrow.REQUEST`. Clients know only their answers, and make mistakes often enough.
"""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass, field
from typing import Any

from pykcoord import Config, Session, Shard
from pykcoord.shard import Request

SEED = bytes(range(32))
TOPICS = {"orders": 4, "returns": 2}
CONFIG = Config(group_initial_rebalance_delay_ms=500, offsets_retention_minutes=1)
START_MS = 1_790_000_000_000
HOST = "/10.0.0.7"
SESSION = Session(HOST, "EMBEDDED")
CLIENT_ID = "consumer-1"

_JOIN, _SYNC, _HEARTBEAT, _LEAVE, _COMMIT, _FETCH = 11, 14, 12, 13, 8, 9
_DESCRIBE, _LIST, _DELETE, _OFFSET_DELETE = 15, 16, 42, 47
_NULL = struct.pack(">h", -1)


def string(text: str) -> bytes:
    """Kafka's string: an int16 and UTF-8."""
    return struct.pack(">h", len(text.encode())) + text.encode()


def sized(data: bytes) -> bytes:
    """Kafka's bytes: the length as an int32, then the bytes."""
    return struct.pack(">i", len(data)) + data


def row(
    seq: int, ts: int, group_id: str, api: tuple[int, int], payload: bytes | None, **columns: Any
) -> dict[str, Any]:
    """A row of `pykcoord.arrow.REQUEST`; what is not named is NULL."""
    return {
        "seq": seq,
        "ts": ts,
        "group_id": group_id,
        "member_id": None,
        "api_key": api[0],
        "api_version": api[1],
        "generation": None,
        "client_id": CLIENT_ID,
        "client_host": HOST,
        "payload": payload,
    } | columns


def commit_body(
    group_id: str, partition: int, offset: int, member: str = "", gen: int = -1
) -> bytes:
    """OffsetCommit v7 of one partition of `orders`."""
    head = string(group_id) + struct.pack(">i", gen) + string(member) + _NULL
    topic = struct.pack(">i", 1) + string("orders") + struct.pack(">i", 1)
    return head + topic + struct.pack(">iqi", partition, offset, -1) + string("note")


def heartbeat_body(group_id: str, member: str, generation: int) -> bytes:
    """Heartbeat v3."""
    return string(group_id) + struct.pack(">i", generation) + string(member) + _NULL


@dataclass
class _Member:
    group_id: str
    member_id: str = ""
    generation: int = -1


@dataclass
class Story:
    """`requests`: rows in order. `answers`: time and body by seq. `records`: offset, key, value."""

    seed: int
    groups: list[str] = field(default_factory=lambda: [f"group-{n}" for n in range(6)])
    requests: list[dict[str, Any]] = field(default_factory=list)
    answers: dict[int, tuple[int, bytes]] = field(default_factory=dict)
    records: list[tuple[int, bytes, bytes | None]] = field(default_factory=list)
    end_ms: int = START_MS

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._shard = Shard(CONFIG, topics=TOPICS, seed=SEED)
        self._timeout_ms: int | None = None
        self._members = [_Member(group) for group in self.groups for _ in range(3)]
        self._asked: dict[int, tuple[_Member, bool]] = {}

    def tell(self, turns: int) -> Story:
        """From `START_MS` on `turns` times of requests, and a minute at the end."""
        self._turn([])
        for _ in range(turns):
            self.end_ms += self._random.choice([1, 1, 20, 700, 4_000, 11_000])
            # Now and then more than the largest window in which a batch is looked up.
            most = self._random.choice([8] * 63 + [140])
            self._turn([self._request() for _ in range(self._random.randrange(most))])
        self.end_ms += 61_000
        self._turn([])
        return self

    def _turn(self, rows: list[dict[str, Any]]) -> None:
        while self._timeout_ms is not None and self._timeout_ms < self.end_ms:
            self._step(self._timeout_ms, [])
        self._step(self.end_ms, [Request(row["seq"], _frame(row), SESSION) for row in rows])

    def _step(self, now_ms: int, requests: list[Request]) -> None:
        committed = None
        while True:
            step = self._shard.step(now_ms, requests, committed)
            self._timeout_ms = step.next_timeout_ms
            for seq, frame in step.responses:
                flexible = _is_flexible(self.requests[seq])
                self.answers[seq] = (now_ms, frame[4 + flexible :])
                self._learn(seq)
            if not step.appends:
                return
            for append in step.appends:
                self.records += _records(append.base_offset, append.records)
            requests, committed = [], self._shard.next_offset

    def _learn(self, seq: int) -> None:
        member, joins = self._asked.pop(seq)
        if not joins:
            return
        body = self.answers[seq][1]
        error, generation = struct.unpack_from(">hi", body, 4)
        at = 10
        for _ in range(3):  # protocol, leader, member id
            (length,) = struct.unpack_from(">h", body, at)
            text, at = body[at + 2 : at + 2 + max(length, 0)], at + 2 + max(length, 0)
        if error in (0, 79):
            member.member_id, member.generation = text.decode(), generation

    def _request(self) -> dict[str, Any]:
        member = self._random.choice(self._members)
        group, generation = member.group_id, member.generation
        if self._random.random() < 0.05:
            generation += self._random.choice([-1, 1])
        kinds = [_JOIN, _SYNC, _HEARTBEAT, _COMMIT, _FETCH, _LEAVE, _DESCRIBE, _LIST, _DELETE]
        kind = self._random.choices([*kinds, _OFFSET_DELETE], [6, 6, 6, 6, 3, 1, 1, 1, 1, 1])[0]
        version, payload = self._body(kind, member, generation)
        seq = len(self.requests)
        asked = row(seq, self.end_ms, group, (kind, version), payload)
        if member.member_id and kind in (_SYNC, _HEARTBEAT, _COMMIT):
            asked |= {"member_id": member.member_id, "generation": generation}
        self.requests.append(asked)
        self._asked[seq] = (member, kind == _JOIN)
        return asked

    def _body(self, kind: int, member: _Member, generation: int) -> tuple[int, bytes]:
        group, member_id = string(member.group_id), string(member.member_id)
        membership = group + struct.pack(">i", generation) + member_id + _NULL
        partition = self._random.randrange(5)
        match kind:
            case 11:
                timeouts = struct.pack(">ii", 10_000, 3_000)
                protocol = struct.pack(">i", 1) + string("range") + sized(b"subscription")
                return 5, group + timeouts + member_id + _NULL + string("consumer") + protocol
            case 14:
                known = [one for one in self._members if one.group_id == member.group_id]
                shares = [string(one.member_id) + sized(b"share") for one in known if one.member_id]
                return 3, membership + struct.pack(">i", len(shares)) + b"".join(shares)
            case 12 if self._random.random() < 0.5:
                return 4, _compact(member.group_id) + struct.pack(">i", generation) + _compact(
                    member.member_id
                ) + b"\0\0"
            case 12:
                return 3, membership
            case 8:
                offset = self._random.randrange(1_000)
                simple = self._random.random() < 0.3
                who = ("", -1) if simple else (member.member_id, generation)
                return 7, commit_body(member.group_id, partition, offset, *who)
            case 9:
                one = string("orders") + struct.pack(">ii", 1, partition)
                return 5, group + struct.pack(">i", 1) + one
            case 13:
                return 3, group + struct.pack(">i", 1) + member_id + _NULL
            case 15:
                return 4, struct.pack(">i", 1) + group + b"\0"
            case 16:
                return 2, b""
            case 42:
                return 1, struct.pack(">i", 1) + group
        one = struct.pack(">i", 1) + string("orders") + struct.pack(">ii", 1, partition)
        return 0, group + one


def _compact(text: str) -> bytes:
    return bytes([len(text) + 1]) + text.encode()


def _frame(row: dict[str, Any]) -> bytes:
    head = struct.pack(">hhi", row["api_key"], row["api_version"], 0) + string(CLIENT_ID)
    return bytes(head + (b"\0" if _is_flexible(row) else b"") + row["payload"])


def _is_flexible(row: dict[str, Any]) -> bool:
    return bool(row["api_key"] == _HEARTBEAT and row["api_version"] == 4)


def _records(base_offset: int, area: bytes) -> list[tuple[int, bytes, bytes | None]]:
    """Offset, key and value of each record of a batch's records area."""
    found, at = [], 0
    while at < len(area):
        length, at = _varint(area, at)
        end = at + length
        _, at = _varint(area, at + 1)  # attributes; timestamp delta
        delta, at = _varint(area, at)
        length, at = _varint(area, at)
        key, at = area[at : at + length], at + length
        length, at = _varint(area, at)
        value = None if length < 0 else area[at : at + length]
        found.append((base_offset + delta, key, value))
        at = end
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 0x80:
            return (value >> 1) ^ -(value & 1), at
