"""ISR and high watermark of a partition that is led, in virtual time."""

from __future__ import annotations

import pytest

from pykcoord.node.leader import Heard, LedPartition

_LAG = 30.0


def _all(broker: int, epoch: int) -> bool:
    return True


def _led(isr: tuple[int, ...] = (9, 1, 2), start: int = 10, min_isr: int = 2) -> LedPartition:
    return LedPartition(
        node_id=9, replicas=(9, 1, 2, 3), isr=isr, leader_epoch=4, partition_epoch=7, start=start,
        min_isr=min_isr, lag_seconds=_LAG, begun_at=0.0, high_watermark=8,
    )  # fmt: skip


def _append(led: LedPartition, end: int) -> None:
    led.appended(end)
    led.synced = end


def test_the_high_watermark_is_the_least_of_those_in_sync() -> None:
    led = _led()
    assert led.high_watermark == 8  # what the follower it was knew
    led.fetched(1, 1, 10, 0.1)
    assert not led.advance(0.1, _all)  # 2 has not asked yet
    led.fetched(2, 1, 10, 0.2)
    assert led.advance(0.2, _all)
    assert led.high_watermark == 10
    _append(led, 20)
    led.fetched(1, 1, 20, 0.3)
    led.fetched(2, 1, 15, 0.3)
    assert led.advance(0.3, _all)
    assert led.high_watermark == 15


def test_nothing_counts_before_it_is_synced_here() -> None:
    led = _led()
    led.appended(20)
    led.fetched(1, 1, 20, 0.1)
    led.fetched(2, 1, 20, 0.1)
    led.advance(0.1, _all)
    assert led.high_watermark == 10
    led.synced = 20
    led.advance(0.1, _all)
    assert led.high_watermark == 20


def test_below_min_insync_replicas_nothing_is_acknowledged() -> None:
    led = _led(isr=(9,))
    _append(led, 20)
    assert not led.advance(0.0, _all)
    led.placed((), (9, 1), 8)
    led.fetched(1, 1, 20, 0.0)
    assert led.advance(0.0, _all)
    assert led.high_watermark == 20
    alone = _led(isr=(9,), min_isr=1)
    _append(alone, 20)
    assert alone.advance(0.0, _all)


def test_one_that_lags_leaves_and_one_that_caught_up_enters() -> None:
    led = _led()
    for at in range(0, 40, 5):
        _append(led, 10 + at)
        led.fetched(1, 1, led.end, float(at))
        assert led.wanted_isr(float(at), _all) in (None, (9, 1))
    assert led.wanted_isr(36.0, _all) == (9, 1)  # 2 never asked
    led.placed((), (9, 1), 8)
    led.fetched(3, 1, led.high_watermark - 1, 37.0)
    assert led.wanted_isr(37.0, _all) is None
    led.fetched(1, 1, led.end, 37.0)
    led.advance(37.0, _all)
    led.fetched(3, 1, led.end, 37.0)
    assert led.wanted_isr(37.0, _all) == (9, 1, 3)
    assert led.wanted_isr(37.0, lambda broker, epoch: broker != 3) is None  # fenced, say


def test_who_is_about_to_enter_holds_the_high_watermark_already() -> None:
    led = _led(isr=(9, 1))
    led.fetched(1, 1, 10, 0.0)
    led.fetched(3, 1, 10, 0.0)
    led.advance(0.0, _all)
    led.pending = led.wanted_isr(0.0, _all)
    assert led.pending == (9, 1, 3)
    assert led.wanted_isr(0.0, _all) is None  # it was asked for
    _append(led, 20)
    led.fetched(1, 1, 20, 0.1)
    assert not led.advance(0.1, lambda broker, epoch: False)
    led.fetched(3, 1, 20, 0.1)
    assert led.advance(0.1, lambda broker, epoch: False)


def test_what_a_broker_asked_before_it_began_anew_counts_no_more() -> None:
    led = _led(isr=(9, 1), start=10)
    led.fetched(1, 5, 10, 0.1)
    led.fetched(1, 6, 4, 0.2)  # it lost something
    led.fetched(1, 5, 10, 0.3)  # was on its way
    assert led.followers[1].end == 4
    led.fetched(1, -1, 7, 0.4)  # of a broker that does not say which it is
    assert led.followers[1].end == 7


def test_who_is_not_heard_of_does_not_enter_again_though_nothing_is_acknowledged() -> None:
    led = _led(isr=(9, 1), start=10)
    led.fetched(1, 1, 10, 0.0)
    led.advance(0.0, _all)
    _append(led, 20)
    assert led.wanted_isr(31.0, _all) == (9,)
    led.placed((), (9,), 8)
    assert not led.advance(31.0, _all), "too few are in sync"
    assert led.wanted_isr(31.0, _all) is None
    led.fetched(1, 1, 10, 40.0)
    assert led.wanted_isr(40.0, _all) == (9, 1)


def test_an_answer_that_is_older_than_what_is_known_changes_nothing() -> None:
    led = _led()
    led.placed((9, 1), (9, 1), 6)
    assert (led.isr, led.replicas) == ((9, 1, 2), (9, 1, 2, 3))
    led.placed((9, 1), (9, 1), 8)
    assert (led.isr, set(led.followers)) == ((9, 1), {1})


@pytest.mark.parametrize(("at", "is_in"), [(29.0, True), (31.0, False)])
def test_the_lag_is_counted_from_when_all_was_had_last(at: float, is_in: bool) -> None:
    led = _led(isr=(9, 1))
    led.fetched(1, 1, 10, 0.0)  # has all
    _append(led, 20)
    led.fetched(1, 1, 11, 1.0)  # is behind from now on
    _append(led, 30)
    led.fetched(1, 1, 12, at)
    assert (led.wanted_isr(at, _all) is None) == is_in


@pytest.mark.parametrize(("heard_at", "is_in"), [(25.0, True), (1.0, False)])
def test_who_asks_without_naming_what_is_as_it_was_has_caught_up(
    heard_at: float, is_in: bool
) -> None:
    led, heard = _led(isr=(9, 1)), Heard()
    led.fetched(1, 1, 10, 0.0, heard)
    heard.at = heard_at
    _append(led, 20)
    assert (led.wanted_isr(40.0, _all) is None) == is_in
    heard.at = 39.0  # of other partitions: it has not what was appended
    assert (led.wanted_isr(40.0, _all) is None) == is_in


def test_who_enters_holds_the_high_watermark_from_when_it_was_heard_of() -> None:
    led, heard = _led(isr=(9, 1)), Heard()
    led.fetched(1, 1, 10, 0.0)
    led.fetched(3, 1, 10, 0.0, heard)
    heard.at = 40.0
    _append(led, 20)
    led.fetched(1, 1, 20, 41.0)
    led.advance(41.0, _all)
    assert led.high_watermark == 10
    assert led.advance(71.0, _all)  # it lags
    assert led.high_watermark == 20
