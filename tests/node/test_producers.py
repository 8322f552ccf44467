"""Who wrote to a partition in transactions: from the batches of its log, and from those that are
appended."""

from __future__ import annotations

import pytest

from pykcoord.log.protocol import Append, record_batch
from pykcoord.node.producers import Producer, Producers

from .markers import end_marker

_DAY_MS = 86_400_000
_RECORD = bytes([2 * 8, 0, 0, 0, 4, 0, 99, 1, 0])
_ABORT, _COMMIT = 0, 1


def _data(offset: int, producer: int, *, epoch: int = 0, count: int = 1, at: int = 1_000) -> Append:
    return Append(0, offset, count, at, at, _RECORD * count, producer, epoch)


def _marker(
    offset: int, producer: int, kind: int, *, epoch: int = 0, coordinator: int = 7, at: int = 1_000
) -> Append:
    return end_marker(offset, (producer, epoch), kind, coordinator_epoch=coordinator, at_ms=at)


def _seen(*appends: Append) -> Producers:
    """From the bytes of the log, after checking that what is appended says the same."""
    read, wrote = Producers(), Producers()
    read.read(b"".join(record_batch(one) for one in appends))
    for one in appends:
        wrote.wrote(one)
    assert vars(read) == vars(wrote)
    return read


def test_what_is_open_is_not_stable_and_is_told() -> None:
    seen = _seen(_data(0, -1), _data(1, 40, epoch=2, count=3), _data(4, -1), _data(5, 41))
    assert seen.stable(6) == 1
    assert seen.active(0)[40] == Producer(2, 1_000, last_sequence=2, open_since=1)
    assert seen.active(0)[41].open_since == 5
    assert 0 not in seen.active(0)


def test_what_ended_is_stable_once_its_marker_is_replicated() -> None:
    seen = _seen(_data(0, 40), _data(1, 41), _marker(2, 40, _COMMIT), _data(3, -1))
    assert (seen.stable(2), seen.stable(4)) == (0, 1)
    seen.wrote(_marker(4, 41, _ABORT))
    assert (seen.stable(4), seen.stable(5)) == (1, 5)


def test_what_was_aborted_is_told_of_what_is_read() -> None:
    seen = _seen(
        _data(0, 40), _data(1, 41), _data(2, 40), _marker(3, 40, _ABORT), _marker(4, 41, _COMMIT),
        _data(5, 41), _marker(6, 41, _ABORT),
    )  # fmt: skip
    assert seen.aborted(0, 7) == [(40, 0), (41, 5)]
    assert seen.aborted(3, 5) == [(40, 0)]
    assert seen.aborted(4, 7) == [(41, 5)]
    assert seen.aborted(7, 9) == []


def test_a_marker_says_who_coordinates_and_a_later_epoch_begins_anew() -> None:
    seen = _seen(_data(0, 40, count=2), _marker(2, 40, _COMMIT, epoch=1, coordinator=9, at=2_000))
    assert seen.active(0) == {40: Producer(1, 2_000, coordinator_epoch=9)}
    other = _seen(_marker(0, 41, _ABORT))  # it had written nothing here
    assert other.active(0)[41].open_since == -1
    assert other.aborted(0, 1) == []


def test_a_producer_that_is_silent_for_a_day_is_forgotten() -> None:
    seen = _seen(_data(0, 40), _marker(1, 40, _COMMIT), _data(2, 41))
    assert list(seen.active(1_000 + _DAY_MS)) == [40, 41]
    assert list(seen.active(1_001 + _DAY_MS)) == [41]  # which has something open
    later = _seen(_data(0, 40), _marker(1, 40, _COMMIT), _data(2, 42, at=2_000 + _DAY_MS))
    assert list(later.active(0)) == [42]


@pytest.mark.parametrize("cut", [1, 60, 69, 70])
def test_what_is_cut_is_read_up_to_the_last_whole_batch(cut: int) -> None:
    batches = record_batch(_data(0, 40)) + record_batch(_data(1, 41))
    assert len(batches) == 2 * 70
    seen = Producers()
    seen.read(batches[:-cut])
    assert list(seen.active(0)) == [40]
