"""A well-behaved member in a process of its own: `python -m attack.heartbeats PORT GROUP EVERY_S`.

It sends a heartbeat at fixed times, and counts a latency from the time at which one was due, so
that a server that stands still is counted for each heartbeat that waits. For each line on stdin it
answers with a line of JSON: the latencies since the last one, in seconds, and the errors.
"""

from __future__ import annotations

import json
import os
import select
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from attack.wire import Connection, Refused, become_member, heartbeat_frame

_TESTS = Path(__file__).parents[1]
_READY = "ready"


class Beats(NamedTuple):
    """The heartbeats of a member: latencies in seconds, and error codes or exceptions as text."""

    seconds: list[float]
    wrong: list[str]

    @property
    def p99(self) -> float:
        return percentile(self.seconds, 0.99)

    @property
    def worst(self) -> float:
        return max(self.seconds, default=0.0)


def percentile(values: Sequence[float], part: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else 0.0


class Victim:
    """The process, seen by its parent."""

    def __init__(self, port: int, group_id: str = "good", every_s: float = 0.01) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "attack.heartbeats", str(port), group_id, str(every_s)],
            cwd=_TESTS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._line() == _READY

    def __enter__(self) -> Victim:
        return self

    def __exit__(self, *raised: object) -> None:
        self._process.kill()
        self._process.communicate()

    @property
    def pid(self) -> int:
        return self._process.pid

    def beats(self) -> Beats:
        """Its heartbeats since the last call, or since it joined."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return Beats(*json.loads(self._line()))

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


def main(port: int, group_id: str, every_s: float) -> None:
    with Connection(port) as connection:
        frame = heartbeat_frame(become_member(connection, group_id))
        sys.stdout.write(f"{_READY}\n")
        sys.stdout.flush()
        seconds: list[float] = []
        wrong: list[str] = []
        due = time.perf_counter()
        while True:
            due += every_s
            asked, _, _ = select.select([0], [], [], max(0.0, due - time.perf_counter()))
            if asked:
                if not os.read(0, 4096):
                    return
                due = time.perf_counter()
            try:
                (error,) = struct.unpack_from(">h", connection.ask(frame), 8)
                seconds.append(time.perf_counter() - due)
                wrong += [f"error {error}"] if error else []
            except (Refused, TimeoutError) as failure:
                wrong.append(repr(failure))
                connection.close()
            except OSError:  # closed before, and told
                time.sleep(every_s)
            if asked:
                sys.stdout.write(json.dumps([seconds, wrong]) + "\n")
                sys.stdout.flush()
                seconds, wrong = [], []
                due = time.perf_counter()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], float(sys.argv[3]))
