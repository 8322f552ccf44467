"""The examples of docs/assignors.md, run as they stand there, print what stands below them."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.pages import examples_of, run_example
from support.server import PykcoordServer

EXAMPLES = examples_of("docs/assignors.md")


def test_every_example_says_what_it_prints() -> None:
    assert len(EXAMPLES) >= 3
    assert all(printed for _, printed in EXAMPLES)


@pytest.mark.parametrize(("code", "printed"), EXAMPLES)
def test_example(code: str, printed: str, tmp_path: Path) -> None:
    if "localhost:9092" not in code:
        assert run_example(code, tmp_path) == printed
        return
    with PykcoordServer(tmp_path / "data", topics={"orders": 12}) as server:
        assert run_example(code.replace("localhost:9092", server.address), tmp_path) == printed
