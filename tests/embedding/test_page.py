"""The examples of docs/embedding.md, run as they stand there, print what stands below them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs/embedding.md"
EXAMPLES = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE.read_text(), re.DOTALL)


def test_every_example_says_what_it_prints() -> None:
    assert len(EXAMPLES) == PAGE.read_text().count("```python") >= 6


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all examples, as a reader has who tries one after another."""
    return tmp_path_factory.mktemp("reader")


@pytest.mark.parametrize(("code", "printed"), EXAMPLES)
def test_example(code: str, printed: str, folder: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ran.stdout, ran.stderr, ran.returncode) == (printed, "", 0)
