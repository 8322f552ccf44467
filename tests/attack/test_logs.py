"""Damaged data directories: what reads them says so, and ends as a command ends."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

_TESTS = Path(__file__).parents[1]
_TIMES = 15
_FULL_TIMES = 1_000


@pytest.mark.parametrize("seed", [2])
def test_a_damaged_directory_is_told_and_not_fatal(seed: int, full: bool, tmp_path: Path) -> None:
    times = _FULL_TIMES if full else _TIMES
    child = subprocess.run(
        [sys.executable, "-m", "attack.logs", str(tmp_path), str(seed), str(times)],
        cwd=_TESTS, capture_output=True, text=True, check=False, timeout=170,
    )  # fmt: skip
    assert child.returncode == 0, child.stderr
    ends = json.loads(child.stdout)
    assert ends["verify 0"] + ends["verify 1"] == times
    assert ends["verify 1"] > 0
