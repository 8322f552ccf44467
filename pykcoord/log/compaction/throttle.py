"""Bytes per second, held on average (Kafka's Throttler)."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Throttle"]


class Throttle:
    """`monotonic` is a clock in seconds, `wait(seconds)` waits that long or until it is stopped."""

    def __init__(
        self,
        bytes_per_second: float,
        monotonic: Callable[[], float],
        wait: Callable[[float], object],
    ) -> None:
        self._seconds_per_byte = 1 / bytes_per_second
        self._monotonic = monotonic
        self._wait = wait
        self._due = 0.0

    def spend(self, size_bytes: int) -> None:
        """So many bytes were read or written: waits until the next may be."""
        if self._seconds_per_byte == 0:
            return
        now = self._monotonic()
        self._due = max(self._due, now) + size_bytes * self._seconds_per_byte
        if self._due > now:
            self._wait(self._due - now)
