"""docs/explain.md has what is printed: `UPDATE=1` writes it anew."""

from __future__ import annotations

import os
import re
from pathlib import Path

from pykcoord.explain import PATTERNS, Report, explain
from pykcoord.virtual import START_MS, World

from .acts import Case
from .logs import both
from .pairs import PAIRS

LOGGED = (
    "killed or paused",
    "left with a reason or without",
    "a new member or one that is back",
    "the leader asks, or asks because a topic grew",
    "another subscription or the same again",
    "a static member restarts, or its id is used twice",
    "waits for the leader or for a member",
    "one comes and goes, or all restart",
    "deleted or expired",
    "consumer protocol: gives up late or not at all",
    "consumer protocol: a topic grew or a subscription changed",
)
PAGE = Path(__file__).parents[2] / "docs" / "explain.md"


def report_of(case: Case) -> Report:
    world = World({"orders": case.partitions}, **case.settings)
    case.act(world)
    return explain(world.events, "g", getattr(world, "mark", START_MS))


def printed() -> str:
    """A table: of each pair both cases, with the lines that name the cause, and the suggestion."""
    out = ["| fault | what is printed |", "|---|---|"]
    for name, pair in PAIRS.items():
        for number, case in enumerate(pair):
            report = report_of(case)
            told = [line.text for line in report.lines if case.says and case.says in line.text]
            text = told[0] if told else "Nothing: nobody has to rebalance."
            for pattern in report.patterns:
                text += f" **{pattern.text} {pattern.suggestion}** Seen: {pattern.evidence}."
            title = f"{name}" if number == 0 else ""
            out.append(f"| {title} | {text.replace('|', chr(92) + '|')} |")
    return "\n".join(out)


def logged() -> str:
    """A table: of some pairs, what the log alone tells of each case."""
    out = ["| fault | what the log tells |", "|---|---|"]
    for name in LOGGED:
        told = []
        for case in PAIRS[name]:
            report = both(case)[1]
            text = report.lines[-1].text if report.lines else "Nothing."
            for pattern in report.patterns:
                text += f" **{pattern.text} {pattern.suggestion}** Seen: {pattern.evidence}."
            told.append(text)
        out += [f"| {name if number == 0 else ''} | {text} |" for number, text in enumerate(told)]
    return "\n".join(out)


def story() -> str:
    report = report_of(PAIRS["one comes and goes, or all restart"][1])
    lines = [f"    {line.text}" for line in report.lines]
    for pattern in report.patterns:
        lines += ["", f"    1. {pattern.text}", f"       {pattern.suggestion}"]
        lines.append(f"       Seen: {pattern.evidence}.")
    return "\n".join(lines)


def test_the_page_has_what_is_printed() -> None:
    text = PAGE.read_text()
    marked = (("story", story()), ("faults", printed()), ("logged", logged()))
    for mark, content in marked:
        pattern = rf"(<!-- {mark} -->\n).*?(<!-- end -->)"
        new = re.sub(
            pattern, lambda found, content=content: f"{found[1]}\n{content}\n\n{found[2]}",
            text, flags=re.DOTALL,
        )  # fmt: skip
        if os.environ.get("UPDATE"):
            PAGE.write_text(new)
        text_now = PAGE.read_text()
        assert new == text_now, "UPDATE=1 writes it anew"
        text = new


def test_the_page_names_each_pattern() -> None:
    table = PAGE.read_text().partition("## What it recognises")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == set(PATTERNS)
