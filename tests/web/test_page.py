"""docs/console.md: its example, as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

from support.pages import examples_of, run_example


def test_the_example_says_where_to_look(tmp_path: Path) -> None:
    ((code, _),) = examples_of("docs/console.md")
    assert re.fullmatch(r"look at http://127\.0\.0\.1:\d+/?\n", run_example(code, tmp_path))
