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


def thread_seconds() -> float:
    """Seconds of a processor that this thread has had: what it waited for does not count."""
    return time.thread_time()


def boot_seconds() -> float:
    """Seconds since the machine started. Goes on while a process, or the machine, is asleep."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def rest(seconds: float) -> None:
    """Have this thread sleep, for others to have the interpreter."""
    time.sleep(seconds)


# Timers that are so late were held up with all else: the process was stopped, or its machine.
_LATE_MS = 100
# Turns in a row that found no more than fits into one, before all that arrived is read and done:
# timers come first in a turn. And how long it may take.
_CATCH_UP_TURNS = 4
_CATCH_UP_SECONDS = 1.0


class CatchUp:
    """Whether late timers wait for what arrived before them. Each turn follows a look at the
    sockets; a client that never ends sending holds timers up for a second at most."""

    def __init__(self) -> None:
        self._is_late = False
        self._turns = 0
        self._until_seconds = 0.0

    def is_needed(self, late_ms: int, is_behind: bool, now_seconds: float) -> bool:
        """To be asked in each turn. `is_behind`: more may have arrived than was read."""
        if late_ms <= _LATE_MS:
            self._is_late = False
            return False
        if not self._is_late:
            self._is_late, self._turns = True, 0
            self._until_seconds = now_seconds + _CATCH_UP_SECONDS
        self._turns = 0 if is_behind else self._turns + 1
        self._is_late = self._turns <= _CATCH_UP_TURNS and now_seconds < self._until_seconds
        return self._is_late
