"""A server that was stopped for longer than sessions last, as on a machine that was suspended."""

from __future__ import annotations

import os
import signal
import socket
import struct
import time
from pathlib import Path

from support.server import PykcoordServer

from .conftest import frame

HEARTBEAT, JOIN, SYNC = 12, 11, 14
SESSION_MS = 4_000
# More than are read together, twice.
MEMBERS = 600


def text(value: bytes) -> bytes:
    return struct.pack(">h", len(value)) + value


class Member:
    """The only one of its group, over a connection of its own."""

    def __init__(self, port: int, group: bytes) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        protocol = struct.pack(">i", 1) + text(b"range") + struct.pack(">i", 0)
        session = struct.pack(">i", SESSION_MS)
        self.group = group
        self.send(JOIN, text(group) + session + text(b"") + text(b"consumer") + protocol)

    def sync(self) -> None:
        joined = self.read()
        assert joined[:2] == b"\0\0"
        at = 6  # behind them and the generation
        for _ in ("protocol", "leader"):
            at += 2 + int.from_bytes(joined[at : at + 2], "big")
        member = joined[at : at + 2 + int.from_bytes(joined[at : at + 2], "big")]
        self.identity = text(self.group) + joined[2:6] + member
        self.send(SYNC, self.identity + struct.pack(">i", 0))

    def send(self, key: int, body: bytes) -> None:
        self.socket.sendall(frame(key, body=body))

    def read(self) -> bytes:
        """The body of the next reply."""
        return self._take(int.from_bytes(self._take(4), "big"))[4:]

    def _take(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            data = self.socket.recv(size - len(found))
            assert data, "the server closed the connection"
            found += data
        return found


def beat(members: list[Member]) -> None:
    for member in members:
        member.send(HEARTBEAT, member.identity)


def answers(members: list[Member]) -> set[bytes]:
    return {member.read() for member in members}


def test_members_whose_heartbeats_wait_in_the_sockets_outlive_a_stop(tmp_path: Path) -> None:
    server = PykcoordServer(tmp_path / "data", topics={"t": 1}).start()
    members = [Member(server.port, b"group-%d" % number) for number in range(MEMBERS)]
    try:
        for member in members:
            member.sync()
        assert {member.read()[:2] for member in members} == {b"\0\0"}
        beat(members)
        assert answers(members) == {b"\0\0"}
        os.kill(server.pid, signal.SIGSTOP)
        try:
            beat(members)
            time.sleep(1.1 * SESSION_MS / 1000)  # for all of it, nothing can happen
        finally:
            os.kill(server.pid, signal.SIGCONT)
        assert answers(members) == {b"\0\0"}
    finally:
        for member in members:
            member.socket.close()
        server.stop()
