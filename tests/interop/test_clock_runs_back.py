"""A log whose timestamps lie ahead of the clock: the time was set back, or the log comes from a
machine whose clock was ahead. It is served; sessions run by today's clock, and nothing expires
early.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from support.asked import HEARTBEAT, JOIN_GROUP, OFFSET_COMMIT, OFFSET_FETCH, SYNC_GROUP, Asked
from support.kio_client import decode, encode

from pykcoord import Config, Shard
from pykcoord.log.protocol import Append
from pykcoord.shard import Request, record_batch

from .conftest import Serve

_DAY_MS = 86_400_000
_NOW_MS = 1_700_000_000_000
_AHEAD_MS = _NOW_MS + 30 * _DAY_MS
_SESSION_MS = 10_000
_RETENTION_MS = 7 * _DAY_MS
_CONFIG = Config(group_initial_rebalance_delay_ms=0, offsets_retention_check_interval_ms=_DAY_MS)


class _Host:
    """The loop around a shard, with a clock that is told the time."""

    def __init__(self, now_ms: int, log: list[Append] | None = None) -> None:
        self.now_ms = now_ms
        self.shard = Shard(_CONFIG, seed=bytes(32))
        self.log: list[Append] = list(log or [])
        self.timeout_ms: int | None = now_ms
        for append in self.log:
            self.shard.replay(record_batch(append), append.base_offset + append.record_count)

    def ask(self, key: int, version: int, **fields: Any) -> Any:
        frame = encode(key, version, **fields)[4:]
        replies = self._step([Request(len(self.log), frame)])
        assert len(replies) == 1
        return decode(key, version, replies[0])

    def run_until(self, now_ms: int) -> None:
        """Lets time pass, with a step at each timeout."""
        while self.timeout_ms is not None and self.timeout_ms <= now_ms:
            self.now_ms = max(self.now_ms, self.timeout_ms)
            self._step([])
        self.now_ms = now_ms
        self._step([])

    def _step(self, requests: list[Request]) -> list[bytes]:
        step = self.shard.step(self.now_ms, requests)
        replies = [response.frame for response in step.responses]
        while step.appends:
            self.log += step.appends
            end = step.appends[-1].base_offset + step.appends[-1].record_count
            step = self.shard.step(self.now_ms, [], end)
            replies += [response.frame for response in step.responses]
        self.timeout_ms = step.next_timeout_ms
        return replies


def _commit(host: _Host, group: str, generation_id: int = -1, member_id: str = "") -> ErrorCode:
    partition = {"partition_index": 0, "committed_offset": 7, "committed_metadata": ""}
    response = host.ask(
        OFFSET_COMMIT, 7, group_id=group, generation_id_or_member_epoch=generation_id,
        member_id=member_id, topics=[{"name": "orders", "partitions": [partition]}],
    )  # fmt: skip
    code: ErrorCode = response.topics[0].partitions[0].error_code
    return code


def _offsets(host: _Host, group: str) -> list[int]:
    response = host.ask(OFFSET_FETCH, 7, group_id=group, topics=None, require_stable=True)
    return [p.committed_offset for topic in response.topics for p in topic.partitions]


def _beat(host: _Host, member_id: str) -> ErrorCode:
    response = host.ask(HEARTBEAT, 4, group_id="crew", generation_id=1, member_id=member_id)
    code: ErrorCode = response.error_code
    return code


@pytest.fixture(scope="module")
def ahead() -> tuple[list[Append], str]:
    """A log from 30 days ahead: a group `crew` with one member and its offset, and an offset
    without a member."""
    host = _Host(_AHEAD_MS)
    timeout = timedelta(milliseconds=_SESSION_MS)
    joined = host.ask(
        JOIN_GROUP, 3, group_id="crew", session_timeout=timeout, rebalance_timeout=timeout,
        member_id="", protocol_type="connect", protocols=[{"name": "one", "metadata": b""}],
    )  # fmt: skip
    member_id = str(joined.member_id)
    assert joined.generation_id == 1
    host.ask(
        SYNC_GROUP, 3, group_id="crew", generation_id=1, member_id=member_id,
        assignments=[{"member_id": member_id, "assignment": b"all"}],
    )  # fmt: skip
    assert _commit(host, "crew", 1, member_id) is ErrorCode.none
    assert _commit(host, "nobodys") is ErrorCode.none
    return host.log, member_id


def test_sessions_run_by_the_clock_of_now(ahead: tuple[list[Append], str]) -> None:
    log, member_id = ahead
    host = _Host(_NOW_MS, log)
    assert _beat(host, member_id) is ErrorCode.none
    assert _commit(host, "crew", 1, member_id) is ErrorCode.none
    assert host.log[-1].max_timestamp == _NOW_MS < log[-1].max_timestamp
    host.run_until(_NOW_MS + _SESSION_MS - 1)
    assert _beat(host, member_id) is ErrorCode.none
    host.run_until(_NOW_MS + 2 * _SESSION_MS - 1)
    assert _beat(host, member_id) is ErrorCode.unknown_member_id


def test_an_emptied_group_expires_by_the_clock_of_now(ahead: tuple[list[Append], str]) -> None:
    log, _ = ahead
    host = _Host(_NOW_MS, log)
    host.run_until(_NOW_MS + _SESSION_MS + _RETENTION_MS - 1)
    assert _offsets(host, "crew") == [7]
    host.run_until(_NOW_MS + _SESSION_MS + _RETENTION_MS + _DAY_MS)
    assert _offsets(host, "crew") == []


def test_an_offset_of_the_future_lives_as_long_from_its_own_time(
    ahead: tuple[list[Append], str],
) -> None:
    """Late, never early: it is not known how far off the other clock was."""
    log, _ = ahead
    host = _Host(_NOW_MS, log)
    host.run_until(_AHEAD_MS + _RETENTION_MS - 1)
    assert _offsets(host, "nobodys") == [7]
    host.run_until(_AHEAD_MS + _RETENTION_MS + _DAY_MS)
    assert _offsets(host, "nobodys") == []


def test_what_was_written_behind_it_is_read_again(ahead: tuple[list[Append], str]) -> None:
    """Offsets decide what is newer, never timestamps."""
    log, member_id = ahead
    host = _Host(_NOW_MS, log)
    partition = {"partition_index": 0, "committed_offset": 3, "committed_metadata": "back"}
    host.ask(
        OFFSET_COMMIT, 7, group_id="crew", generation_id_or_member_epoch=1, member_id=member_id,
        topics=[{"name": "orders", "partitions": [partition]}],
    )  # fmt: skip
    again = _Host(_NOW_MS - _DAY_MS, host.log)
    assert _offsets(again, "crew") == [3]
    assert _beat(again, member_id) is ErrorCode.none


def test_such_a_directory_is_served(
    ahead: tuple[list[Append], str], tmp_path: Path, serve: Serve
) -> None:
    far_ms = 4_000_000_000_000  # the year 2096
    log, member_id = ahead
    folder = tmp_path / "data" / "__consumer_offsets-0"
    folder.mkdir(parents=True)
    shift_ms = far_ms - _AHEAD_MS
    moved = [
        append._replace(
            base_timestamp=append.base_timestamp + shift_ms,
            max_timestamp=append.max_timestamp + shift_ms,
        )
        for append in log
    ]
    (folder / f"{0:020d}.log").write_bytes(b"".join(map(record_batch, moved)))
    server = serve(folder.parent, 1, "--topic", "orders:1")
    for _ in range(2):
        with Asked(server.address) as asked:
            assert asked.listed()["crew"][1] == "Stable"
            beat = asked.ask(HEARTBEAT, 4, group_id="crew", generation_id=1, member_id=member_id)
            assert beat.error_code is ErrorCode.none
            errors = asked.commit("crew", [("orders", 0, 8)], generation_id=1, member_id=member_id)
            assert errors == {ErrorCode.none}
        server.restart()
    with Asked(server.address) as asked:
        assert asked.offsets(["crew"])["crew"]["orders"]["0"]["offset"] == 8
