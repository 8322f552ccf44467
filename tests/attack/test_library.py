"""The library with what it does not expect: an exception for the caller, no panic and no signal."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from attack.library import CASES

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
