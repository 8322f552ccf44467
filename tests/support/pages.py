"""Examples and commands of the project's pages, run as a reader runs them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
_EXAMPLE = re.compile(
    r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL
)


def commands_of(page: str) -> list[str]:
    """The commands of a page for the shell, in its order: lines of indented blocks."""
    found = re.findall(
        r"^ +((?:pykcoord|kafka-[\w-]+\.sh|rm|echo) .+)$", (ROOT / page).read_text(), re.M
    )
    return [line.partition("  #")[0].strip() for line in found]


def examples_of(page: str) -> list[tuple[str, str]]:
    """The examples of a page, named by its path in the project: code, and the output that the page
    shows below it ("" if none)."""
    text = (ROOT / page).read_text()
    found = _EXAMPLE.findall(text)
    assert len(found) == text.count("```python"), f"{page}: an example that is not seen"
    return found


def run_example(code: str, directory: Path) -> str:
    """Runs the example; returns its output. It must succeed, close everything, and print nothing to
    stderr."""
    ran = subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", "-c", code],
        cwd=directory, capture_output=True, text=True, timeout=150, check=False,
    )  # fmt: skip
    assert (ran.stderr, ran.returncode) == ("", 0)
    return ran.stdout
