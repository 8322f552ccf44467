"""One attack, again and again: `python -m attack PORT SCALE NAME`, at the priority of an idle
processor.

It says `ready` once it is prepared, attacks for the seconds in each line of stdin (one pass at
least), and answers with a line of JSON: the passes, and the outcome of their requests.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from attack.attacks import ATTACKS, Outcome

_TESTS = Path(__file__).parents[1]
_READY = "ready"


class Passes(NamedTuple):
    """The number of passes of an attack, and the outcome of their requests."""

    passes: int
    answered: int
    refused: int
    answer_bytes: int


class Attacker:
    """The process, seen by its parent."""

    def __init__(self, port: int, name: str, scale: float = 1.0) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "attack", str(port), str(scale), name],
            cwd=_TESTS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        if self._line() != _READY:
            raise RuntimeError(f"the attack {name!r} could not be prepared")

    def __enter__(self) -> Attacker:
        return self

    def __exit__(self, *raised: object) -> None:
        self._process.kill()
        self._process.communicate()

    @property
    def pid(self) -> int:
        return self._process.pid

    def come_as_any(self) -> None:
        """From now on at the priority of other processes."""
        os.sched_setscheduler(self._process.pid, os.SCHED_OTHER, os.sched_param(0))

    def attack(self, seconds: float) -> Passes:
        """Makes passes for this long, one at least."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{seconds}\n")
        self._process.stdin.flush()
        return Passes(*json.loads(self._line()))

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


def main(port: int, scale: float, name: str) -> None:
    # As if it came from another machine: a process that wakes up takes its processor at once. At
    # nice 19 that process waits for the rest of a slice, up to 3 ms.
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    once = ATTACKS[name](port, scale)
    _say(_READY)
    for line in sys.stdin:
        ends = time.monotonic() + float(line)
        passes, total = 0, Outcome()
        while not passes or time.monotonic() < ends:
            total = Outcome(*map(sum, zip(total, once(), strict=True)))
            passes += 1
        _say(json.dumps([passes, *total]))


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3])
