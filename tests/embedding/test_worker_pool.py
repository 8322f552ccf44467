"""examples/worker_pool.py, run as a reader runs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).parents[2] / "examples" / "worker_pool.py"


def _run(directory: Path) -> list[str]:
    """The lines that it prints. Must end well and say nothing on stderr."""
    ran = subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", str(PROGRAM), str(directory)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (ran.stderr, ran.returncode) == ("", 0)
    return ran.stdout.splitlines()


def test_work_is_done_once_and_remembered(tmp_path: Path) -> None:
    """One worker leaves early. It has committed its work, so that no other does it again."""
    end = ["group adders has members: 0", "committed: 4000 of 4000"]
    assert _run(tmp_path / "groups-data") == ["processed now: 4000", *end]
    assert _run(tmp_path / "groups-data") == ["processed now: 0", *end]
