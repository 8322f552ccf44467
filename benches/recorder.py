"""What the flight recorder costs a heartbeat and a commit over the wire: `make bench-recorder`, or
`python -m benches.recorder`.

Instructions of a whole server, Python included, counted by valgrind while one client asks, with
`group.events.enable` on and off: two runs of each that differ in how often it asks, so that start
and end fall out. Allowed is 1 % more. Some minutes, as valgrind is slow. In process, and of joins:
`make bench-gate`.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from benches.counts import CannotCount, require_counter
from benches.workload import Member, heartbeat, join_group, offset_commit, sync_group

FEW, MANY = 2_000, 12_000
ALLOWED = 1.01

Request = Callable[[Member], bytes]
REQUESTS: dict[str, Request] = {
    "heartbeat": heartbeat,
    "commit-1": lambda member: offset_commit(member, 1, count=1),
}


def _ask(connection: socket.socket, frame: bytes) -> bytes:
    connection.sendall(struct.pack(">i", len(frame)) + frame)
    (size,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
    return connection.recv(size, socket.MSG_WAITALL)


def _text(reply: bytes, at: int) -> tuple[str, int]:
    end = at + 2 + int.from_bytes(reply[at : at + 2])
    return reply[at + 2 : end].decode(), end


def _joined(connection: socket.socket, group: str) -> Member:
    """A member that is alone in its group."""
    asked = _ask(connection, join_group(group, ""))
    at = 4 + 4 + 2 + 4
    for _ in range(2):  # protocol, leader
        _, at = _text(asked, at)
    member_id, _ = _text(asked, at)
    generation = int.from_bytes(_ask(connection, join_group(group, member_id))[10:14])
    member = (group, member_id, generation)
    assert _ask(connection, sync_group(member))[8:10] == b"\0\0"
    return member


def count(events: bool, name: str, times: int) -> int:
    """Instructions of a server that answers so many of these requests, from its start to its
    end."""
    with tempfile.TemporaryDirectory(prefix="pykcoord-recorder-") as folder:
        counts = Path(folder) / "counts"
        command = ["valgrind", "--tool=cachegrind", "--cache-sim=no"]
        command += [f"--cachegrind-out-file={counts}", sys.executable, "-m", "pykcoord", "serve"]
        command += [str(Path(folder) / "data"), "--listen", "127.0.0.1:0"]
        command += ["--topic", "orders-placed:100", "--flush", "os"]
        for setting in (
            f"group.events.enable={str(events).lower()}", "group.initial.rebalance.delay.ms=0",
            "offsets.topic.num.partitions=1",
        ):  # fmt: skip
            command += ["--set", setting]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as server:
            assert server.stdout is not None
            listen = re.search(r"listen=(\S+):(\d+)", server.stdout.readline())
            assert listen is not None, "the server did not start"
            with socket.create_connection((listen[1], int(listen[2]))) as connection:
                frame = REQUESTS[name](_joined(connection, "billing"))
                for _ in range(times):
                    _ask(connection, frame)
            server.send_signal(signal.SIGTERM)
        assert server.returncode == 0, server.returncode
        found = re.search(r"^summary: (\d+)", counts.read_text(), re.MULTILINE)
        assert found is not None
        return int(found[1])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--requests", nargs="+", choices=REQUESTS, default=list(REQUESTS))
    names = parser.parse_args().requests
    try:
        require_counter()
    except CannotCount as reason:
        sys.stdout.write(f"instructions are not counted: {reason}\n")
        return 0
    runs = [(on, name, times) for name in names for on in (False, True) for times in (FEW, MANY)]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = dict(zip(runs, pool.map(lambda run: count(*run), runs), strict=True))
    failed = False
    for name in names:
        off, on = (
            (found[is_on, name, MANY] - found[is_on, name, FEW]) / (MANY - FEW)
            for is_on in (False, True)
        )
        failed = failed or on / off > ALLOWED
        sys.stdout.write(f"{name}: {off:,.0f} without, {on:,.0f} with events: {on / off:.4f}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
