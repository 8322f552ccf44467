"""Every Python example of the README runs as it stands there. A page of docs/ that has any has a
`test_page.py` of its own, which knows what they print."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.server import PykcoordServer

ROOT = Path(__file__).parent.parent
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
EXAMPLES = _BLOCK.findall((ROOT / "README.md").read_text())


def test_every_page_with_examples_has_a_test() -> None:
    pages = {page.stem for page in (ROOT / "docs").glob("*.md") if _BLOCK.search(page.read_text())}
    tests = "\n".join(test.read_text() for test in (ROOT / "tests").glob("*/test_page.py"))
    assert pages == {page for page in pages if f"docs/{page}.md" in tests} != set()
    assert len(EXAMPLES) >= 3


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
