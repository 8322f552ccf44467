"""The part of Kafka's protocol that attacks and their victims need, written by hand: without a
library that checks requests, and with the same bytes for every server.

Frames are without their length until they are sent.
"""

from __future__ import annotations

import socket
import struct
from typing import NamedTuple

JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP, OFFSET_COMMIT = 11, 12, 13, 14, 8
API_VERSIONS = 18
SUBSCRIPTION = b"\0\0\0\0\0\1\0\6orders\xff\xff\xff\xff"
_ASSIGNMENT = b"\0\0\0\0\0\0\xff\xff\xff\xff"
# Of one system call. Many kernels do not interrupt one (PREEMPT_NONE): to take 20 MiB at once holds
# the processor for 3 ms, and a member that is woken there waits, whatever the server does.
_PIECE = 1 << 16


class Refused(ConnectionError):
    """The server closed the connection and answered nothing."""


class Member(NamedTuple):
    """The ids of a member, as the coordinator gave them."""

    group_id: str
    member_id: str
    generation: int


def header(key: int, version: int, *, flexible: bool = False) -> bytes:
    return struct.pack(">hhih", key, version, 1, 1) + b"x" + (b"\0" if flexible else b"")


def text(value: str) -> bytes:
    return struct.pack(">h", len(value.encode())) + value.encode()


def sized(value: bytes) -> bytes:
    return struct.pack(">i", len(value)) + value


def uvarint(value: int) -> bytes:
    data = b""
    while value > 127:
        data += bytes([value & 127 | 128])
        value >>= 7
    return data + bytes([value])


def send_in_pieces(to: socket.socket, data: bytes) -> None:
    """As `sendall`, with other processes let in between."""
    view = memoryview(data)
    for at in range(0, len(view), _PIECE):
        to.sendall(view[at : at + _PIECE])


class Connection:
    """One connection; every wait for the server ends after `timeout_s`."""

    def __init__(self, port: int, timeout_s: float = 120) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def send(self, frame: bytes) -> None:
        try:
            send_in_pieces(self.socket, sized(frame))
        except (BrokenPipeError, ConnectionResetError) as error:
            raise Refused(str(error)) from error

    def read(self) -> bytes:
        """A reply, without its length."""
        return self._read(self._size())

    def skip(self) -> int:
        """Reads a reply without keeping it; returns its size in bytes."""
        size = left = self._size()
        while left:
            left -= len(self._piece(left))
        return size

    def ask(self, frame: bytes) -> bytes:
        self.send(frame)
        return self.read()

    def _size(self) -> int:
        (size,) = struct.unpack(">i", self._read(4))
        return int(size)

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            data += self._piece(size - len(data))
        return bytes(data)

    def _piece(self, most: int) -> bytes:
        try:
            data = self.socket.recv(min(most, _PIECE))
        except ConnectionResetError as error:
            raise Refused(str(error)) from error
        if not data:
            raise Refused("the server closed the connection")
        return data


def join_frame(
    group_id: str, member_id: str = "", *, metadata: bytes = SUBSCRIPTION, session_ms: int = 30_000
) -> bytes:
    """JoinGroup v3, which needs no second one for an id (KIP-394 is v4)."""
    body = text(group_id) + struct.pack(">ii", session_ms, session_ms) + text(member_id)
    body += text("consumer") + struct.pack(">i", 1) + text("range") + sized(metadata)
    return header(JOIN_GROUP, 3) + body


def joined(reply: bytes, group_id: str) -> Member:
    """The member in an answer to JoinGroup v3."""
    _, _, error, generation = struct.unpack_from(">iihi", reply)
    if error:
        raise AssertionError(f"JoinGroup: error {error}")
    at = 14
    strings = []
    for _ in range(3):  # the protocol, the leader, the member
        (size,) = struct.unpack_from(">h", reply, at)
        strings.append(reply[at + 2 : at + 2 + size].decode())
        at += 2 + size
    return Member(group_id, strings[2], generation)


def sync_frame(member: Member) -> bytes:
    """SyncGroup v1 of a leader that is alone."""
    body = text(member.group_id) + struct.pack(">i", member.generation) + text(member.member_id)
    body += struct.pack(">i", 1) + text(member.member_id) + sized(_ASSIGNMENT)
    return header(SYNC_GROUP, 1) + body


def heartbeat_frame(member: Member) -> bytes:
    body = text(member.group_id) + struct.pack(">i", member.generation) + text(member.member_id)
    return header(HEARTBEAT, 1) + body


def leave_frame(member: Member) -> bytes:
    return header(LEAVE_GROUP, 1) + text(member.group_id) + text(member.member_id)


def become_member(
    connection: Connection,
    group_id: str,
    *,
    metadata: bytes = SUBSCRIPTION,
    session_ms: int = 30_000,
) -> Member:
    """Join alone and sync."""
    join = join_frame(group_id, metadata=metadata, session_ms=session_ms)
    member = joined(connection.ask(join), group_id)
    (error,) = struct.unpack_from(">h", connection.ask(sync_frame(member)), 8)
    if error:
        raise AssertionError(f"SyncGroup: error {error}")
    return member


def commit_frame(
    group_id: str, offsets: dict[int, int], metadata: str = "", topic: str = "orders"
) -> bytes:
    """OffsetCommit v7 of a group without members."""
    body = text(group_id) + struct.pack(">i", -1) + text("") + b"\xff\xff"
    body += struct.pack(">i", 1) + text(topic) + struct.pack(">i", len(offsets))
    for partition, offset in offsets.items():
        body += struct.pack(">iqi", partition, offset, -1) + text(metadata)
    return header(OFFSET_COMMIT, 7) + body


def alive_frame() -> bytes:
    """ApiVersions v0, which every server answers."""
    return header(API_VERSIONS, 0)
