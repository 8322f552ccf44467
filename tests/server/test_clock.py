"""Time never runs back, never jumps, and finds back to the wall clock."""

from __future__ import annotations

from pykcoord.clock import Clock

SECOND = 1_000_000_000


class Times:
    def __init__(self) -> None:
        self.wall = 1_700_000_000 * SECOND
        self.monotonic = 5 * SECOND

    def clock(self) -> Clock:
        return Clock(lambda: self.wall, lambda: self.monotonic)

    def passes(self, ns: int) -> None:
        self.wall += ns
        self.monotonic += ns


def test_milliseconds_of_the_wall_clock():
    times = Times()
    clock = times.clock()
    assert clock.now_ms() == 1_700_000_000_000
    times.passes(1_500_000)
    assert clock.now_ms() == 1_700_000_000_001


def test_a_wall_clock_set_back_slows_time_by_a_tenth_at_most():
    times = Times()
    clock = times.clock()
    start = clock.now_ms()
    times.wall -= 5 * SECOND
    readings = []
    for _ in range(100):
        times.passes(SECOND)
        readings.append(clock.now_ms() - start)
    assert readings[0] == 900
    assert readings[49] == 45_000  # 5 s caught up with after 50 s
    assert readings[99] == 95_000
    assert readings == sorted(readings)


def test_a_wall_clock_set_forward_does_not_expire_everybody():
    times = Times()
    clock = times.clock()
    start = clock.now_ms()
    times.wall += 3600 * SECOND
    times.passes(SECOND)
    assert clock.now_ms() - start == 1_100


def test_time_stands_still_rather_than_run_back():
    times = Times()
    clock = times.clock()
    first = clock.now_ms()
    times.wall -= 10 * SECOND
    assert clock.now_ms() == first
