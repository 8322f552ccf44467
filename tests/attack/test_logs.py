"""Damaged data directories: what reads them says so, and ends as a command ends."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

_TESTS = Path(__file__).parents[1]
_TIMES = 15
# With all seeds a thousand.
_FULL_TIMES = 100
_FULL_SEEDS = range(2, 12)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    full = bool(metafunc.config.getoption("--attack-full"))
    metafunc.parametrize("seed", _FULL_SEEDS if full else _FULL_SEEDS[:1])


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
