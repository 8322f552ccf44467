"""How long processes waited for a processor: what a machine with other work adds to a time that is
measured, and what a bound of a time is not about.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path


class Since:
    """The moment `at` (monotonic), from which on the processes `pids()` and this one are looked
    at; those that come later from their start."""

    def __init__(self, pids: Callable[[], Iterable[int]] = tuple) -> None:
        self._pids = pids
        self._before = self._waited()
        self.at = time.monotonic()

    def waited(self) -> float:
        """Seconds that threads of the processes could have run and did not, all together. 0 where
        the system does not tell."""
        now = self._waited()
        return sum(max(0.0, of - self._before.get(pid, 0.0)) for pid, of in now.items())

    def _waited(self) -> dict[int, float]:
        return {pid: _waited(pid) for pid in (os.getpid(), *self._pids())}


def _waited(pid: int) -> float:
    nanoseconds = 0
    for thread in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with contextlib.suppress(OSError):  # it has ended
            nanoseconds += int(thread.read_text().split()[1])
    return nanoseconds / 1e9
