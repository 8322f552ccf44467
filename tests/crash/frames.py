"""The few requests of the load, framed by hand: small, old versions without tagged fields.

Must stay independent of the project's codec, which it helps to test.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

OFFSET_COMMIT, OFFSET_FETCH, JOIN_GROUP, HEARTBEAT, SYNC_GROUP, LIST_GROUPS = 8, 9, 11, 12, 14, 16
METADATA, FIND_COORDINATOR, LEAVE_GROUP, CREATE_TOPICS, DELETE_TOPICS = 3, 10, 13, 19, 20
DELETE_GROUPS, OFFSET_DELETE, CONSUMER_GROUP_HEARTBEAT = 42, 47, 68
_VERSIONS = {
    OFFSET_COMMIT: 7,
    OFFSET_FETCH: 5,
    FIND_COORDINATOR: 1,
    JOIN_GROUP: 5,
    HEARTBEAT: 3,
    SYNC_GROUP: 3,
    LIST_GROUPS: 2,
    METADATA: 1,
    LEAVE_GROUP: 1,
    CREATE_TOPICS: 2,
    DELETE_TOPICS: 1,
    DELETE_GROUPS: 0,
    OFFSET_DELETE: 0,
    CONSUMER_GROUP_HEARTBEAT: 0,
}
# From these versions on headers have tagged fields, and lengths are one more than they say.
_FLEXIBLE = {CONSUMER_GROUP_HEARTBEAT}
_CLIENT_ID = "crash"
_ASSIGNMENT = b"\0\0\0\0\0\0\xff\xff\xff\xff"
_SUBSCRIPTION = b"\0\0\0\0\0\1\0\6orders\xff\xff\xff\xff"


def _string(text: str | None) -> bytes:
    if text is None:
        return b"\xff\xff"
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def _bytes(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def frame(api: int, body: bytes, version: int | None = None) -> bytes:
    version = _VERSIONS[api] if version is None else version
    header = struct.pack(">hhi", api, version, 0) + _string(_CLIENT_ID)
    header += b"\0" if api in _FLEXIBLE else b""
    return struct.pack(">i", len(header) + len(body)) + header + body


def find_coordinator(group: str) -> bytes:
    return frame(FIND_COORDINATOR, _string(group) + b"\0")


def join_group(group: str, member_id: str, timeout_ms: int) -> bytes:
    body = _string(group) + struct.pack(">ii", timeout_ms, timeout_ms) + _string(member_id)
    body += _string(None) + _string("consumer")
    return frame(JOIN_GROUP, body + struct.pack(">i", 1) + _string("range") + _bytes(_SUBSCRIPTION))


def sync_group(group: str, generation: int, member_id: str, members: Iterable[str]) -> bytes:
    """`members`: of the leader, all ids; of another member, none."""
    assignments = [_string(member) + _bytes(_ASSIGNMENT) for member in members]
    body = _string(group) + struct.pack(">i", generation) + _string(member_id) + _string(None)
    return frame(SYNC_GROUP, body + struct.pack(">i", len(assignments)) + b"".join(assignments))


def heartbeat(group: str, generation: int, member_id: str) -> bytes:
    body = _string(group) + struct.pack(">i", generation) + _string(member_id) + _string(None)
    return frame(HEARTBEAT, body)


def consumer_heartbeat(
    group: str, member_id: str, epoch: int, topic: str | None = None, timeout_ms: int = -1
) -> bytes:
    """Of epoch 0 with the only topic that is subscribed to; afterwards nothing has changed."""
    body = _compact(group) + _compact(member_id) + struct.pack(">i", epoch) + b"\0\0"
    body += struct.pack(">i", timeout_ms)
    body += b"\0" if topic is None else b"\2" + _compact(topic)
    owned = b"\0" if topic is None else b"\1"
    return frame(CONSUMER_GROUP_HEARTBEAT, body + b"\0" + owned + b"\0")


def _compact(text: str) -> bytes:
    """A short string of a flexible version."""
    data = text.encode()
    assert len(data) < 127
    return bytes([len(data) + 1]) + data


def offset_commit(
    group: str, generation: int, member_id: str, topic: str, partitions: range, offset: int
) -> bytes:
    body = _string(group) + struct.pack(">i", generation) + _string(member_id) + _string(None)
    body += struct.pack(">i", 1) + _string(topic) + struct.pack(">i", len(partitions))
    for partition in partitions:
        body += struct.pack(">iqi", partition, offset, -1) + _string("")
    return frame(OFFSET_COMMIT, body)


def expiring_commit(
    group: str, topic: str, partition: int, offset: int, retention_time_ms: int
) -> bytes:
    """Nobody's commit, of the version that may still say when it expires."""
    body = _string(group) + struct.pack(">i", -1) + _string("")
    body += struct.pack(">qi", retention_time_ms, 1) + _string(topic)
    body += struct.pack(">iiq", 1, partition, offset) + _string("")
    return frame(OFFSET_COMMIT, body, 2)


def leave_group(group: str, member_id: str) -> bytes:
    return frame(LEAVE_GROUP, _string(group) + _string(member_id))


def delete_group(group: str) -> bytes:
    return frame(DELETE_GROUPS, struct.pack(">i", 1) + _string(group))


def offset_delete(group: str, topic: str, partition: int) -> bytes:
    body = _string(group) + struct.pack(">i", 1) + _string(topic)
    return frame(OFFSET_DELETE, body + struct.pack(">ii", 1, partition))


def create_topic(topic: str, partitions: int) -> bytes:
    body = struct.pack(">i", 1) + _string(topic) + struct.pack(">ihii", partitions, 1, 0, 0)
    return frame(CREATE_TOPICS, body + struct.pack(">i?", 10_000, False))


def delete_topic(topic: str) -> bytes:
    return frame(DELETE_TOPICS, struct.pack(">i", 1) + _string(topic) + struct.pack(">i", 10_000))


def metadata() -> bytes:
    """Of all topics."""
    return frame(METADATA, struct.pack(">i", -1))


def offset_fetch(group: str) -> bytes:
    """Of all topics of the group."""
    return frame(OFFSET_FETCH, _string(group) + struct.pack(">i", -1))


def list_groups() -> bytes:
    return frame(LIST_GROUPS, b"")


class Joined(NamedTuple):
    error: int
    generation: int
    leader: str
    member_id: str
    members: list[str]


class Reader:
    """Reads the body of one response."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 4  # after the correlation id

    def number(self, form: str) -> int:
        value, *_ = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return int(value)

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.number(">B")
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def string(self) -> str:
        length = max(0, self.number(">h"))
        self.at += length
        return self.data[self.at - length : self.at].decode()

    def bytes(self) -> bytes:
        length = max(0, self.number(">i"))
        self.at += length
        return self.data[self.at - length : self.at]


def error_after_throttle(data: bytes) -> int:
    """The error code of a SyncGroup, Heartbeat or FindCoordinator response."""
    reader = Reader(data)
    reader.number(">i")
    return reader.number(">h")


def consumer_beaten(data: bytes) -> tuple[int, int]:
    """The error code and the member epoch of a ConsumerGroupHeartbeat response."""
    reader = Reader(data)
    reader.number(">B")  # tagged fields of the header
    reader.number(">i")
    error = reader.number(">h")
    for _ in range(2):  # message and member id
        size = reader.varint() - 1
        reader.at += max(0, size)
    return error, reader.number(">i")


def joined(data: bytes) -> Joined:
    reader = Reader(data)
    reader.number(">i")
    error, generation = reader.number(">h"), reader.number(">i")
    reader.string()
    leader, member_id = reader.string(), reader.string()
    members = []
    for _ in range(reader.number(">i")):
        members.append(reader.string())
        reader.string()
        reader.bytes()
    return Joined(error, generation, leader, member_id, members)


def only_error(data: bytes) -> int:
    """The error code of the only group or topic of a response, behind the throttle time."""
    reader = Reader(data)
    reader.number(">i")
    assert reader.number(">i") == 1
    reader.string()
    return reader.number(">h")


def offset_delete_error(data: bytes) -> int:
    reader = Reader(data)
    error = reader.number(">h")
    reader.number(">i")
    for _ in range(reader.number(">i")):
        reader.string()
        for _ in range(reader.number(">i")):
            reader.number(">i")
            error = error or reader.number(">h")
    return error


def topics(data: bytes) -> dict[str, int]:
    """Name to number of partitions, of a Metadata response."""
    reader = Reader(data)
    for _ in range(reader.number(">i")):
        reader.number(">i")
        reader.string()
        reader.number(">i")
        reader.string()
    reader.number(">i")
    found = {}
    for _ in range(reader.number(">i")):
        reader.number(">h")
        name = reader.string()
        reader.number(">?")
        found[name] = reader.number(">i")
        for _ in range(found[name]):
            reader.number(">hii")
            for _ in range(2):
                nodes = reader.number(">i")
                reader.at += 4 * nodes
    return found


def commit_errors(data: bytes, *, throttled: bool = True) -> set[int]:
    reader = Reader(data)
    if throttled:
        reader.number(">i")
    errors = set()
    for _ in range(reader.number(">i")):
        reader.string()
        for _ in range(reader.number(">i")):
            reader.number(">i")
            errors.add(reader.number(">h"))
    return errors


def fetched_offsets(data: bytes) -> tuple[int, dict[int, int]]:
    """Returns the group's error and its offset by partition, of the only topic there is."""
    reader = Reader(data)
    reader.number(">i")
    offsets = {}
    for _ in range(reader.number(">i")):
        reader.string()
        for _ in range(reader.number(">i")):
            partition, offset = reader.number(">i"), reader.number(">q")
            reader.number(">i")
            reader.string()
            reader.number(">h")
            offsets[partition] = offset
    return reader.number(">h"), offsets


def listed_groups(data: bytes) -> set[str]:
    reader = Reader(data)
    reader.number(">i")
    assert reader.number(">h") == 0, "ListGroups failed"
    groups = set()
    for _ in range(reader.number(">i")):
        groups.add(reader.string())
        reader.string()
    return groups
