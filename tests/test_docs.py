"""The documentation says what the code does: generated pages are fresh, links lead somewhere."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def _generated() -> dict[str, str]:
    spec = importlib.util.spec_from_file_location("docs", ROOT / ".ci/generate_docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    pages: dict[str, str] = module.pages()
    return pages


def test_generated_pages_are_fresh() -> None:
    for name, text in _generated().items():
        assert (ROOT / "docs" / name).read_text() == text, f"docs/{name}: run `make docs`"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_are_named_exist(page: Path) -> None:
    """Every `path/with/slashes` of the repository that a page names."""
    tops = "|".join(["native", "pykcoord", "tests", r"\.ci", "benches", "docs", "spark"])
    for name in re.findall(rf"`((?:{tops})/[\w./-]+)`", page.read_text()):
        assert (ROOT / name).exists(), name
