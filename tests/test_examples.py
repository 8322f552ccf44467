"""Every Python example of the README and of docs/ runs as it stands there; those of docs/spark.md,
which need a session, do so in tests/spark/test_page.py."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.server import PykcoordServer

ROOT = Path(__file__).parent.parent
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
EXAMPLES = [
    pytest.param(code, id=f"{page.name}-{number}")
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    if page.name != "spark.md"
    for number, code in enumerate(_BLOCK.findall(page.read_text()), 1)
]


def _run(code: str, directory: Path) -> str:
    result = subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", "-c", code],
        cwd=directory, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert result.stdout, "an example shows something"
    return result.stdout


@pytest.mark.parametrize("code", EXAMPLES)
def test_an_example_runs(code: str, tmp_path: Path) -> None:
    if "localhost:9092" not in code:
        _run(code, tmp_path)
        return
    with PykcoordServer(tmp_path / "data", topics={"orders": 12}) as server:
        out = _run(code.replace("localhost:9092", server.address), tmp_path)
    assert out in ("12 partitions; the first is at 42\n", "12 partitions\n")
