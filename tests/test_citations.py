"""Every citation of the spec, a probe or a client pitfall leads to a place in docs/spec.

Code cites "states section 5.4", the scenarios of tests/diff "states §5.4", the spec itself
"offsets.md §3" or, within a page, "§3".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SPEC = ROOT / "docs" / "spec"
PAGES = sorted(SPEC.glob("*.md"))
# Short names that the scenarios of tests/diff use.
ALIASES = {"consumer": "consumer-protocol"}
FOLDERS = ("native", "pykcoord", "spark", "tests", "benches", "docs", "examples")
ENDINGS = {".rs", ".py", ".pyi", ".pyx", ".pxd", ".md", ".txt", ".toml", ".java", ".go", ".js"}
DASH = "\u2013"
NUMBER = r"\d+(?:\.\d+)*"
LIST = rf"{NUMBER}(?:(?:, | and | or | to |{DASH}){NUMBER})*"
PAGE = r"\b(?P<page>[a-z][a-z-]*)(?:\.md)?"
CITATIONS = re.compile(
    rf"(?:{PAGE},? )?\bsections? (?P<sections>{LIST})|(?:{PAGE.replace('page', 'marked')} )?"
    rf"§(?P<signs>{NUMBER}(?:(?:, §|, | and §| to §|{DASH}§|{DASH}){NUMBER})*)"
)
# Numbers without the word "section" are not looked up: they must not look like citations.
BARE = re.compile(
    r"\b[a-z][a-z-]*\.md \d[\d.]*|\b(?:states|timers|offsets|log-format|wire) \d+\.\d+\b"
)
PROBE = re.compile(r"\b[Pp]robes? (?P<name>[PCO]\d+[a-z]?)\b")
PITFALL = re.compile(r"\b[Pp]itfalls? (?P<number>\d+)\b")


def _headings(page: Path) -> set[str]:
    numbered = re.findall(rf"^#+ ({NUMBER})\.? ", page.read_text(), re.MULTILINE)
    return set(numbered)


HEADINGS = {page.stem: _headings(page) for page in PAGES}
PROBES = {
    name
    for kind in ("classic", "consumer", "offset")
    for name in re.findall(
        r"^([PCO]\d+[a-z]?)\b",
        (ROOT / "tests/vectors" / f"{kind}-probes.txt").read_text(),
        re.MULTILINE,
    )
}
PITFALLS = set(re.findall(r"^(\d+)\. ", (SPEC / "client-pitfalls.md").read_text(), re.MULTILINE))


def _joined(path: Path) -> str:
    """The text without line breaks, marks of comments and of code: a citation may be wrapped."""
    text = path.read_text(errors="replace").replace("`", "")
    return re.sub(r"\s*\n\s*(?:(?:///?|//!|#|\*)\s+)?", " ", text)


def _numbers(listed: str) -> list[str]:
    return re.findall(NUMBER, listed)


def unresolved(text: str, home: str | None = None) -> Iterator[str]:
    """The citations of a text that lead nowhere; `home` is the spec's page that it is, if any."""
    for match in CITATIONS.finditer(text):
        page = match["page"] or match["marked"]
        page = ALIASES.get(page, page)
        if page not in HEADINGS:
            page = home
        for number in _numbers(match["sections"] or match["signs"]):
            if page is None or number not in HEADINGS[page]:
                yield match[0]
    yield from BARE.findall(text)
    yield from (m[0] for m in PROBE.finditer(text) if m["name"] not in PROBES)
    yield from (m[0] for m in PITFALL.finditer(text) if m["number"] not in PITFALLS)


def _sources() -> list[Path]:
    found = [
        path
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*")
        if path.suffix in ENDINGS and not {"target", "node_modules", "build"} & set(path.parts)
    ]
    # This file, and files that Kafka wrote.
    return [path for path in found if path != Path(__file__) and "segments" not in path.parts]


def test_each_citation_leads_to_a_heading_a_probe_or_a_pitfall() -> None:
    lost = [
        f"{path.relative_to(ROOT)}: {citation}"
        for path in _sources()
        for citation in unresolved(_joined(path), path.stem if path.parent == SPEC else None)
    ]
    assert not lost, "\n".join(lost)


@pytest.mark.parametrize(
    "text",
    [
        "states section 5.99",
        "see section 3",
        "nowhere section 3",
        "`states.md` sections 3.1 and 9.99",
        "offsets §2.9",
        "Probe P99",
        "pitfall 77",
        "(wire.md 3.2)",
        "(states 5.6, 5.9)",
    ],
)
def test_a_citation_that_leads_nowhere_is_found(text: str) -> None:
    assert list(unresolved(text)), text


def test_a_citation_that_is_wrapped_or_lists_several_is_read() -> None:
    assert not list(unresolved("log-format sections 2 to 4, states section 5.4 (probe P1c)"))
    assert not list(unresolved("the same as §3 and offsets.md §2.2", "states"))
