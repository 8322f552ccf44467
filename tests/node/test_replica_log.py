"""A replica's log: written as a leader, followed, read back from any offset, and cut."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from pykcoord.log._record_batch import header
from pykcoord.log.copied import UnfitBatchError
from pykcoord.log.protocol import Append
from pykcoord.log.replica import ReplicaLog

_TOPIC_ID = bytes(range(16))


def _open(path: Path, segment_bytes: int = 4096) -> ReplicaLog:
    log = ReplicaLog.open(path, _TOPIC_ID, segment_bytes, lambda chunk: None)
    assert isinstance(log, ReplicaLog)
    return log


def _append(log: ReplicaLog, epoch: int, size: int = 1) -> None:
    record = bytes([2 * (5 + size)]) + bytes([0, 0, 0, 1, 2 * size]) + b"v" * size
    log.lead([Append(0, log.next_offset, 1, 1000, 1000, record + b"\0")], epoch)


def _offsets(data: bytes) -> list[int]:
    found, at = [], 0
    while at < len(data):
        one = header(data, at)
        found.append(one.base_offset)
        at += one.size
    assert at == len(data)
    return found


def test_batches_are_read_from_any_offset_as_they_are(tmp_path: Path) -> None:
    log = _open(tmp_path / "p")
    rng = random.Random(1)
    for number in range(500):
        _append(log, 3 + number // 200, rng.randrange(1, 50))
    again = _open(tmp_path / "p")  # without an index in memory
    for one in (log, again):
        for offset in [0, 1, 199, 200, 201, 498, 499]:
            assert _offsets(one.batches_from(offset, 1)) == [offset]
            found = _offsets(one.batches_from(offset, 1 << 20))
            assert found == list(range(offset, found[-1] + 1))
        assert one.batches_from(500, 1 << 20) == b""
    copy, offset = _open(tmp_path / "q"), 0
    while offset < 500:
        data = log.batches_from(offset, 2_000)
        assert len(data) <= 2_000
        assert copy.follow(data) == len(data)
        offset = copy.next_offset
    assert copy.epochs == log.epochs == [(3, 0), (4, 200), (5, 400)]
    assert list(copy.read()) != []
    with pytest.raises(UnfitBatchError):
        copy.follow(b"x" * 100)
    log.close(), again.close(), copy.close()


def test_where_an_epoch_ends_is_what_kafka_says(tmp_path: Path) -> None:
    """LeaderEpochFileCache.endOffsetFor."""
    log = _open(tmp_path / "p")
    assert log.end_of_epoch(0) == (-1, -1)
    log.begin_epoch(7)
    assert log.end_of_epoch(5) == (5, 0)  # nothing was written before
    assert log.end_of_epoch(7) == (7, 0)
    _append(log, 7)
    _append(log, 7)
    log.begin_epoch(9)
    assert log.end_of_epoch(7) == (7, 2)
    assert log.end_of_epoch(8) == (7, 2)
    assert log.end_of_epoch(9) == (9, 2)
    assert log.end_of_epoch(10) == (-1, -1)
    _append(log, 9)
    log.begin_epoch(9)  # given up for a moment, and led again
    assert log.epochs == [(7, 0), (9, 2)]
    assert log.end_of_epoch(9) == (9, 3)
    log.truncate(2)
    log.begin_epoch(12)  # 9 wrote nothing
    assert log.epochs == [(7, 0), (12, 2)]
    log.forget_empty_epochs()
    assert log.last_epoch == 7
    log.close()


def test_a_cut_log_goes_on_where_it_was_cut(tmp_path: Path) -> None:
    log = _open(tmp_path / "p", 500)
    for number in range(50):
        _append(log, 1 + number // 25, 20)
    log.truncate(30)
    assert log.next_offset == 30
    assert log.epochs == [(1, 0), (2, 25)]
    assert _offsets(log.batches_from(29, 1 << 20)) == [29]
    assert log.batches_from(30, 1 << 20) == b""
    _append(log, 5)
    assert log.epochs[-1] == (5, 30)
    assert _offsets(log.batches_from(28, 1 << 20))[:1] == [28]
    log.close()
