"""Time: the only module that reads a clock. It must never let time run back."""

from __future__ import annotations

import time
from collections.abc import Callable

_NANOSECONDS_PER_MS = 1_000_000
# A stepped wall clock is caught up with by running this part faster or slower (timers are never
# further off than that), as NTP slews: a jump would expire every session at once.
_SLEW_DIVISOR = 10


class Clock:
    """Wall-clock milliseconds that never run back and never jump.

    Starts at the wall clock, advances with the monotonic clock, and drifts towards the wall
    clock by at most a tenth of the time that passes.
    """

    def __init__(
        self,
        wall_ns: Callable[[], int] = time.time_ns,
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._wall_ns = wall_ns
        self._monotonic_ns = monotonic_ns
        self._now_ns = wall_ns()
        self._read_at_ns = monotonic_ns()

    def now_ms(self) -> int:
        """Milliseconds since the epoch; at least what the call before returned."""
        read_at_ns = self._monotonic_ns()
        elapsed_ns = read_at_ns - self._read_at_ns
        self._read_at_ns = read_at_ns
        now_ns = self._now_ns + elapsed_ns
        slew_ns = elapsed_ns // _SLEW_DIVISOR
        behind_ns = self._wall_ns() - now_ns
        self._now_ns = now_ns + max(-slew_ns, min(behind_ns, slew_ns))
        return self._now_ns // _NANOSECONDS_PER_MS


def monotonic_seconds() -> float:
    """Seconds of a clock for measuring durations; its zero means nothing."""
    return time.perf_counter()
