"""A server that stands still for longer than a session: a laptop that sleeps, a paused machine."""

from __future__ import annotations

import os
import signal
import struct
import time
from pathlib import Path

from attack.target import attacked
from attack.wire import Connection, become_member, heartbeat_frame

_MEMBERS, _FULL_MEMBERS = 40, 300
# All members join within it: one by one, on a machine that does other things as well.
_SESSION_MS, _FULL_SESSION_MS = 4_000, 6_000


def test_heartbeats_that_wait_in_the_sockets_keep_their_members(full: bool, tmp_path: Path) -> None:
    """Kafka expels nearly all of them: its timers run before it reads."""
    with attacked(tmp_path / "data") as target:
        members = []
        session_ms = _FULL_SESSION_MS if full else _SESSION_MS
        for number in range(_FULL_MEMBERS if full else _MEMBERS):
            client = Connection(target.port)
            member = become_member(client, f"paused{number}", session_ms=session_ms)
            members.append((client, heartbeat_frame(member)))
        for client, heartbeat in members:
            assert struct.unpack_from(">h", client.ask(heartbeat), 8)[0] == 0
        os.kill(target.server.pid, signal.SIGSTOP)
        try:
            for client, heartbeat in members:
                client.send(heartbeat)
            time.sleep(1.1 * session_ms / 1000)  # what is waited for is time itself
        finally:
            os.kill(target.server.pid, signal.SIGCONT)
        errors = [struct.unpack_from(">h", client.read(), 8)[0] for client, _ in members]
        assert errors == [0] * len(members)
        for client, _ in members:
            client.close()
