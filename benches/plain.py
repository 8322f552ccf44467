"""The plain thing to compare with: a coordinator of Python dicts, as one would write it first.

It does the work of the requests that the benchmarks time (decode, look up, check, store, encode,
and for commits the record of Kafka's log format), and nothing else. It must stay plain.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from benches.workload import NOW_MS, SESSION_TIMEOUT_MS, Frame, Member

_HEADER = struct.Struct(">hhih")
_OFFSET = struct.Struct(">hqih")
_OFFSET_VALUE = struct.Struct(">hqi")


@dataclass
class PlainGroup:
    generation_id: int
    members: dict[str, int]  # member id to its deadline
    metadata: tuple[bytes, bytes] = (b"", b"")
    offsets: dict[tuple[str, int], tuple[int, int, bytes]] = field(default_factory=dict)


class PlainCoordinator:
    """Groups by id. Replies carry their 4-byte length, as those of the node do."""

    def __init__(self, members: list[Member]) -> None:
        self.groups = {
            group_id: PlainGroup(generation_id, {member_id: NOW_MS + SESSION_TIMEOUT_MS})
            for group_id, member_id, generation_id in members
        }

    def turn(self, frames: list[Frame]) -> int:
        replies = [self.handle(frame) for _, _, frame in frames]
        return len(replies)

    def handle(self, frame: bytes) -> bytes:
        api_key, _, correlation_id, client_id = _HEADER.unpack_from(frame)
        at = _HEADER.size + client_id
        if api_key == 12:
            body = self.heartbeat(frame, at)
        elif api_key == 8:
            body = self.offset_commit(frame, at)
        else:
            body = self.offset_fetch(frame, at)
        return struct.pack(">ii", 4 + len(body), correlation_id) + body

    def heartbeat(self, frame: bytes, at: int) -> bytes:
        group, member_id, error, _ = self.member_of(frame, at)
        if not error:
            assert group is not None
            group.members[member_id] = NOW_MS + SESSION_TIMEOUT_MS
        return struct.pack(">ih", 0, error)

    def offset_commit(self, frame: bytes, at: int) -> bytes:
        group, _, error, at = self.member_of(frame, at)
        topic, at = _string(frame, at + 4)
        (count,) = struct.unpack_from(">i", frame, at)
        at += 4
        reply = [struct.pack(">iih", 0, 1, len(topic)), topic.encode(), struct.pack(">i", count)]
        for _ in range(count):
            partition, offset, epoch = struct.unpack_from(">iqi", frame, at)
            metadata, at = _string(frame, at + 16)
            if not error:
                assert group is not None
                group.offsets[topic, partition] = (offset, epoch, metadata.encode())
                self.record(topic, partition, offset, epoch, metadata.encode())
            reply.append(struct.pack(">ih", partition, error))
        return b"".join(reply)

    def offset_fetch(self, frame: bytes, at: int) -> bytes:
        group_id, at = _string(frame, at)
        topic, at = _string(frame, at + 4)
        (count,) = struct.unpack_from(">i", frame, at)
        group = self.groups[group_id]
        reply = [struct.pack(">iih", 0, 1, len(topic)), topic.encode(), struct.pack(">i", count)]
        for partition in struct.unpack_from(f">{count}i", frame, at + 4):
            offset, epoch, metadata = group.offsets.get((topic, partition), (-1, -1, b""))
            reply.append(struct.pack(">iqih", partition, offset, epoch, len(metadata)))
            reply.append(metadata + b"\0\0")
        reply.append(b"\0\0")
        return b"".join(reply)

    def member_of(self, frame: bytes, at: int) -> tuple[PlainGroup | None, str, int, int]:
        """Group, member id, Kafka's error code, and where the request goes on."""
        group_id, at = _string(frame, at)
        (generation_id,) = struct.unpack_from(">i", frame, at)
        member_id, at = _string(frame, at + 4)
        group = self.groups.get(group_id)
        if group is None or member_id not in group.members:
            return None, member_id, 25, at + 2
        error = 22 if generation_id != group.generation_id else 0
        return group, member_id, error, at + 2

    def record(self, topic: str, partition: int, offset: int, epoch: int, metadata: bytes) -> bytes:
        """OffsetCommitKey v1 and OffsetCommitValue v3."""
        key = struct.pack(">hh", 1, len(topic)) + topic.encode() + struct.pack(">i", partition)
        value = _OFFSET.pack(3, offset, epoch, len(metadata)) + metadata
        return key + value + struct.pack(">q", NOW_MS)


def _string(frame: bytes, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">h", frame, at)
    at += 2
    if length < 0:
        return "", at
    return frame[at : at + length].decode(), at + length


def replay(log: bytes) -> dict[tuple[str, str, int], tuple[int, bytes]]:
    """A log of OFFSET_COMMIT records, as a simple script would read it."""
    offsets: dict[tuple[str, str, int], tuple[int, bytes]] = {}
    at = 0
    while at < len(log):
        _, size = struct.unpack_from(">qi", log, at)
        (count,) = struct.unpack_from(">i", log, at + 57)
        record_at = at + 61
        for _ in range(count):
            record_bytes, body = _varint(log, record_at)
            end = body + record_bytes
            _, body = _varint(log, body + 1)  # after the attributes: timestamp delta
            _, body = _varint(log, body)  # offset delta
            key_bytes, key = _varint(log, body)
            value_bytes, value = _varint(log, key + key_bytes)
            record_at = end
            if struct.unpack_from(">h", log, key)[0] > 1 or value_bytes < 0:
                continue
            group, key = _string(log, key + 2)
            topic, key = _string(log, key)
            (partition,) = struct.unpack_from(">i", log, key)
            version, offset, _ = _OFFSET_VALUE.unpack_from(log, value)
            value += _OFFSET_VALUE.size
            if version >= 4:  # flexible: a compact string, of up to 126 bytes here
                metadata, value = log[value] - 1, value + 1
            else:
                metadata, value = *struct.unpack_from(">h", log, value), value + 2
            offsets[group, topic, partition] = (offset, log[value : value + metadata])
        at += 12 + size
    return offsets


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
