"""The examples of docs/timers.md run as they stand there; they assert what they show."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.pages import examples_of, run_example

EXAMPLES = [code for code, _ in examples_of("docs/timers.md")]


def test_the_page_shows_both_structures() -> None:
    assert any("TimingWheel" in code and "Purgatory" in code for code in EXAMPLES)


@pytest.mark.parametrize("code", EXAMPLES)
def test_an_example_runs(code: str, tmp_path: Path) -> None:
    assert "assert " in code
    assert run_example(code, tmp_path) == ""
