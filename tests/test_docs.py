"""The documentation says what the code does: generated pages are fresh, links lead somewhere."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
# For users and for readers of the code, each for one task; docs/spec describes Kafka.
GUIDES = [
    page
    for page in sorted((ROOT / "docs").glob("*.md"))
    if page.name not in ("README.md", "CHANGELOG.md")
]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def _program(name: str) -> Any:
    spec = importlib.util.spec_from_file_location("docs", ROOT / ".ci" / name)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _generated() -> dict[str, str]:
    pages: dict[str, str] = _program("generate_docs.py").pages()
    return pages


def test_generated_pages_are_fresh() -> None:
    for name, text in _generated().items():
        assert (ROOT / "docs" / name).read_text() == text, f"docs/{name}: run `make docs`"


def test_the_page_of_schemes_is_that_of_its_numbers() -> None:
    numbers = json.loads((ROOT / "docs/schemes.json").read_text())
    for name, text in _program("schemes.py").rendered(numbers).items():
        assert (ROOT / "docs" / name).read_text() == text, f"docs/{name}: python .ci/schemes.py"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", re.sub(r"`[^`\n]*`", "", page.read_text())):
        if "://" not in target:
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_are_named_exist(page: Path) -> None:
    """Every `path/with/slashes` of the repository that a page names."""
    tops = r"native|pykcoord|tests|\.ci|benches|docs|examples|spark"
    for name in re.findall(rf"`((?:{tops})/[\w./-]+)`", page.read_text()):
        assert (ROOT / name).exists(), name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_tests_that_are_named_are_there(page: Path) -> None:
    """As in "tests/log/test_lock.py: `test_one`, `test_two`"; without a folder in tests/attack."""
    named = re.findall(r"([\w/-]+\.(?:py|rs)): ((?:`\w+`(?:, )?)+)", page.read_text())
    for file, names in named:
        text = (ROOT / file if "/" in file else ROOT / "tests/attack" / file).read_text()
        for name in re.findall(r"`(\w+)`", names):
            assert re.search(rf"\b(def|fn) {name}\b", text), f"{file}: {name}"


def _anchors(page: Path) -> set[str]:
    """The headings of a page as links name them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    words = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {word.replace(" ", "-") for word in words}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_to_headings_lead_somewhere(page: Path) -> None:
    text = re.sub(r"`[^`\n]*`", "", page.read_text())
    for target, anchor in re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", text):
        if "://" not in target:
            there = page.parent / target if target else page
            assert anchor in _anchors(there), f"{target}#{anchor}"


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.name)
def test_a_page_says_near_its_top_what_it_does_not_do(page: Path) -> None:
    top = page.read_text().partition("\n## ")[0]
    assert re.search(r"^Not \w+( \w+)?: ", top, re.MULTILINE), (
        "say before the first section what a reader does not find here, or cannot do: 'Not here: '"
    )


def test_the_index_lists_every_page() -> None:
    index = (ROOT / "docs/README.md").read_text()
    linked = set(re.findall(r"\]\(([\w.-]+\.md)[)#]", index))
    assert {page.name for page in GUIDES} | {"CHANGELOG.md"} <= linked


def test_the_readme_is_short_and_says_early_what_is_not_there() -> None:
    text = (ROOT / "README.md").read_text()
    assert text.count("\n") <= 120
    assert text.split("\n\n")[3].startswith("**What it does not do.**"), "the third paragraph"
