"""How long processes waited for a processor: what a machine with other work adds to a time that is
measured, and what a bound of a time is not about.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

_EVERY_S = 0.05


class Waits:
    """Looks at the processes `pids()` and this one until `close`, from the moment `at` (monotonic)
    on: how much of a stretch of time somebody waited, and could delay all others by it."""

    def __init__(self, pids: Callable[[], Iterable[int]] = tuple) -> None:
        self._pids = pids
        self._seen: dict[str, float] = {}
        self._slots: defaultdict[int, float] = defaultdict(float)
        self._closed = threading.Event()
        self._look(math.inf)
        self.at = time.monotonic()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closed.set()
        self._thread.join()

    def within(self, start: float, end: float) -> float:
        """Seconds of that stretch, never more than it has."""
        slots = range(int(start / _EVERY_S), int(end / _EVERY_S) + 1)
        waited = sum(min(_EVERY_S, self._slots.get(slot, 0.0)) for slot in slots)
        return min(waited, end - start)

    def _run(self) -> None:
        while not self._closed.wait(_EVERY_S):
            self._look(time.monotonic())

    def _look(self, now: float) -> None:
        """A wait is told of when it is over: it may be older than the last look."""
        for pid in (os.getpid(), *self._pids()):
            for thread, waited in _threads(pid):
                more = waited - self._seen.get(thread, 0.0)
                self._seen[thread] = waited
                slot = 0 if now == math.inf else int(now / _EVERY_S)
                while more > 0 and slot > 0:
                    self._slots[slot] += min(more, _EVERY_S)
                    more -= _EVERY_S
                    slot -= 1


def _threads(pid: int) -> Iterator[tuple[str, float]]:
    """What names each thread, and how many seconds it has waited since it began."""
    for thread in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with contextlib.suppress(OSError):  # it has ended
            yield str(thread), int(thread.read_text().split()[1]) / 1e9
