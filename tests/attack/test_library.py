"""The library with what it does not expect: an exception for the caller, no panic and no signal."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Collection
from pathlib import Path

import pytest

import pykcoord
from attack.library import CASES
from pykcoord import ArgumentError, CoordinatorClosedError

_TESTS = Path(__file__).parents[1]
_TIMES = {"native": 40, "shard": 60, "arrow": 200, "coordinator": 1, "assign": 300}
_FULL_TIMES = 20
# Forms that an error for a caller's mistake must not have: an ArgumentError says what is wrong.
_NOWHERE = {"SystemError"}
_NEVER = dict.fromkeys(
    ("coordinator", "assign"),
    _NOWHERE | {"AttributeError", "OverflowError", "UnicodeEncodeError", "ValueError"},
)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", [1])
def test_odd_arguments_raise_and_harm_nothing(case: str, seed: int, full: bool) -> None:
    times = _TIMES[case] * (_FULL_TIMES if full else 1)
    child = subprocess.run(
        [sys.executable, "-m", "attack.library", case, str(seed), str(times)],
        cwd=_TESTS, capture_output=True, text=True, check=False, timeout=150,
    )  # fmt: skip
    assert child.returncode == 0, child.stderr[-2000:]
    assert "panicked" not in child.stderr
    raised = json.loads(child.stdout)
    assert sum(raised.values()) > len(raised)
    assert not _NEVER.get(case, _NOWHERE) & set(raised), raised


def test_time_may_jump_ahead_and_not_back() -> None:
    shard = pykcoord.Shard(seed=bytes(32))
    for now_ms in (0, 2**62, 2**63 - 1):
        shard.step(now_ms, [])
    for now_ms in (2**62, 0, -1, -(2**62), -(2**63), 2**63, 2**64):
        with pytest.raises(ArgumentError):
            shard.step(now_ms, [])
    shard.step(2**63 - 1, [])


def test_a_closed_coordinator_says_so_whatever_it_is_asked(tmp_path: Path) -> None:
    with pykcoord.Coordinator(tmp_path, topics={"orders": 2}) as opened:
        member = opened.join("g", ["orders"])
        member.wait()
    calls: list[Callable[[], object]] = [
        lambda: member.commit({("orders", 0): 1}),
        member.committed,
        member.wait,
        lambda: opened.join("g", ["orders"]),
        opened.groups,
        lambda: opened.add_topics({"x": 1}),
        lambda: opened.heartbeat_many(["g"], ["m"], [1]),
        lambda: opened.handle(b"xx").result(2),
    ]
    for call in calls:
        with pytest.raises(CoordinatorClosedError):
            call()
    member.close()
    opened.close()
    assert member.assignment == frozenset()


def test_listeners_may_fail_commit_join_and_close(tmp_path: Path) -> None:
    def fail(partitions: object) -> None:
        raise RuntimeError("a listener fails")

    done = []

    with pykcoord.Coordinator(tmp_path, topics={"orders": 4}) as opened:

        def commit_and_join(partitions: Collection[tuple[str, int]]) -> None:
            member.commit(dict.fromkeys(partitions, 1))
            opened.join("other", ["orders"]).close()
            done.append(len(partitions))

        with pytest.raises(RuntimeError, match="a listener fails"):
            opened.join("failing", ["orders"], on_assigned=fail).wait(60)
        member = opened.join("g", ["orders"], on_revoked=commit_and_join)
        member.wait(60)
        member.close()
        assert done == [4]
        closing = opened.join("closing", ["orders"], on_assigned=lambda _: opened.close())
        with pytest.raises(CoordinatorClosedError):
            closing.wait(60)
