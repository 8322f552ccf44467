"""`pykcoord demo` as a newcomer runs it, and the files that it leaves behind."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.client
@pytest.mark.crash
def test_the_demo_keeps_every_promise(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "pykcoord", "demo"],
        capture_output=True, text=True, timeout=120, env={"TMPDIR": str(tmp_path), "PATH": ""},
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    assert list(tmp_path.iterdir()) == []
    for told in (
        r"the coordinator listens on 127\.0\.0\.1:\d+ \(process \d+; new log\)",
        r"generation \d+: ann reads 0\+1, bob reads 2\+3, cleo reads 4\+5\n",
        r"a new group waits for more members",
        r"bob is killed \(SIGKILL\)",
        r"the coordinator is killed \(SIGKILL\)",
        r"read 6 offsets from its log in \d+ ms",
        r"nobody had to rejoin: ann reads 0\+1, cleo reads 2\+3, dan reads 4\+5\n",
        r"none was lost",
    ):
        assert re.search(told, result.stdout), told + "\n" + result.stdout
    acknowledged = re.search(r"(\d+) commits were acknowledged", result.stdout)
    assert acknowledged is not None
    assert int(acknowledged[1]) >= 6 * 4 * 4


@pytest.mark.client
@pytest.mark.crash
def test_the_demo_kills_one_of_several_nodes(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "pykcoord", "demo", "--nodes", "3"],
        capture_output=True, text=True, timeout=120, env={"TMPDIR": str(tmp_path), "PATH": ""},
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    assert list(tmp_path.iterdir()) == []
    for told in (
        r"3 nodes coordinate \(process \d+ watches them\)",
        r"node \d is killed \(SIGKILL\), which coordinates the group 'billing'",
        r"the supervisor has started node \d again from its log",
        r"none was lost",
    ):
        assert re.search(told, result.stdout), told + "\n" + result.stdout
