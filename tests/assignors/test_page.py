"""The examples of docs/assignors.md, run as they stand there, print what stands below them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.server import PykcoordServer

PAGE = Path(__file__).parents[2] / "docs/assignors.md"
EXAMPLES = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE.read_text(), re.DOTALL)


def test_every_example_says_what_it_prints() -> None:
    assert len(EXAMPLES) == PAGE.read_text().count("```python") >= 3


@pytest.mark.parametrize(("code", "printed"), EXAMPLES)
def test_example(code: str, printed: str, tmp_path: Path) -> None:
    if "localhost:9092" in code:
        with PykcoordServer(tmp_path / "data", topics={"orders": 12}) as server:
            ran = _run(code.replace("localhost:9092", server.address))
    else:
        ran = _run(code)
    assert (ran.stdout, ran.stderr, ran.returncode) == (printed, "", 0)


def _run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
