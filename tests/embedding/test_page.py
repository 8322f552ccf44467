"""The examples of docs/embedding.md, run as they stand there, print what stands below them."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.pages import examples_of, run_example

EXAMPLES = examples_of("docs/embedding.md")


def test_every_example_says_what_it_prints() -> None:
    assert len(EXAMPLES) >= 6
    assert all(printed for _, printed in EXAMPLES)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all examples, as a reader has."""
    return tmp_path_factory.mktemp("reader")


@pytest.mark.parametrize(("code", "printed"), EXAMPLES)
def test_example(code: str, printed: str, folder: Path) -> None:
    assert run_example(code, folder) == printed
