"""The stub of the extension module says what the binary has."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_stub_fits_the_binary() -> None:
    checked = subprocess.run(
        [
            *(sys.executable, "-m", "mypy.stubtest", "pykcoord._native"),
            *("--mypy-config-file", "pyproject.toml"),
        ],
        cwd=ROOT,
        env={**os.environ, "MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
