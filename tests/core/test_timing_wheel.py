"""`pykcoord.TimingWheel`: the binding. The wheel itself is tested in native/core/tests/timer.rs."""

from __future__ import annotations

import doctest
import gc
import heapq
import random
import weakref

import pytest

import pykcoord
from pykcoord import TimingWheel
from pykcoord.errors import ArgumentError

LAST_MS = 2**63 - 1


def run_examples(public: type) -> int:
    """Runs the examples in the docstrings of a class and of its methods; returns their number."""
    runner = doctest.DocTestRunner()
    for test in doctest.DocTestFinder().find(public, globs={public.__name__: public}):
        runner.run(test)
    assert runner.failures == 0
    return runner.tries


def test_examples_in_docstrings_hold() -> None:
    assert run_examples(TimingWheel) >= 15


def test_is_public() -> None:
    assert "TimingWheel" in pykcoord.__all__
    assert "TimingWheel" in dir(pykcoord)
    with pytest.raises(AttributeError, match="no attribute 'TimingWeel'"):
        pykcoord.TimingWeel  # noqa: B018


def test_fires_in_order_and_never_early() -> None:
    wheel: TimingWheel[str] = TimingWheel(now_ms=1_000)
    for deadline_ms, value in [(1_450, "b"), (1_020, "a"), (1_450, "c"), (LAST_MS, "last")]:
        wheel.insert(deadline_ms, value)
    assert wheel.advance(1_019) == []
    assert wheel.advance(1_020) == [(1_020, "a")]
    assert wheel.advance(1_500) == [(1_450, "b"), (1_450, "c")]
    assert (wheel.now_ms, len(wheel), wheel.next_deadline()) == (1_500, 1, LAST_MS)
    assert wheel.advance(LAST_MS) == [(LAST_MS, "last")]


def test_a_stale_id_reaches_nobody() -> None:
    wheel: TimingWheel[str] = TimingWheel()
    stale = wheel.insert(10, "first")
    assert wheel.deadline(stale) == 10
    assert wheel.cancel(stale) == "first"
    live = wheel.insert(10, "second")
    assert live != stale
    assert wheel.deadline(stale) is None
    assert wheel.cancel(stale, default=wheel) is wheel
    assert wheel.cancel(0) is None
    assert wheel.advance(10) == [(10, "second")]


def test_agrees_with_a_heap() -> None:
    chance = random.Random(848)
    wheel: TimingWheel[int] = TimingWheel()
    heap: list[tuple[int, int]] = []
    ids: dict[int, int] = {}
    now_ms = 0
    for sequence in range(20_000):
        deadline_ms = now_ms + int(1 + 10 ** chance.uniform(0, 7))
        ids[sequence] = wheel.insert(deadline_ms, sequence)
        heapq.heappush(heap, (deadline_ms, sequence))
        if sequence % 3 == 0:
            cancelled = chance.choice(list(ids)[-50:])
            assert wheel.cancel(ids.pop(cancelled)) == cancelled
        if sequence % 10 == 0:
            now_ms += chance.randrange(2_000)
            expected = []
            while heap and heap[0][0] <= now_ms:
                due = heapq.heappop(heap)
                if ids.pop(due[1], None) is not None:
                    expected.append(due)
            assert wheel.advance(now_ms) == expected
        assert len(wheel) == len(ids)


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda wheel: TimingWheel(now_ms=LAST_MS + 1), "now_ms"),
        (lambda wheel: wheel.insert(LAST_MS + 1, "x"), "deadline_ms"),
        (lambda wheel: wheel.advance(-(2**64)), "now_ms"),
        (lambda wheel: wheel.advance(99), "now_ms"),
        (lambda wheel: wheel.cancel(-1), "timer_id"),
        (lambda wheel: wheel.deadline(2**64), "timer_id"),
    ],
)
def test_a_number_out_of_range_names_the_argument(call, argument) -> None:
    with pytest.raises(ArgumentError) as caught:
        call(TimingWheel(now_ms=100))
    assert caught.value.argument == argument


def test_a_wrong_type_names_the_argument() -> None:
    with pytest.raises(TypeError, match=r"^deadline_ms: 'str' object"):
        TimingWheel().insert("soon", "x")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^now_ms: 'float' object"):
        TimingWheel().advance(1.5)  # type: ignore[arg-type]


def test_a_cycle_through_a_wheel_is_collected() -> None:
    class Owner:
        def __init__(self) -> None:
            self.wheel: TimingWheel[object] = TimingWheel()
            self.wheel.insert(10, self)

    owner = weakref.ref(Owner())
    gc.collect()
    assert owner() is None
