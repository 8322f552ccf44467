"""Write docs/schemes.md and its pictures from what a run of `pykcoord lab all` found.

`make schemes` runs it: `python .ci/schemes.py LAB` takes LAB/lab.json; without an argument the
numbers are those of docs/schemes.json. `rendered(found)` touches no file.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pykcoord.cli.lab.page import (
    HERD_COLUMNS,
    SPLIT_COLUMNS,
    TWICE_COLUMNS,
    claims,
    herd_rows,
    pictures,
    split_rows,
    twice_rows,
)

ROOT = Path(__file__).parent.parent
NUMBERS = "schemes.json"


def rendered(found: Mapping[str, Any]) -> dict[str, str]:
    """Name in docs/ to text: the page and its pictures."""
    largest = max(row["members"] for row in found["herd"])
    rows = [row for row in herd_rows(found) if row[0] == str(largest)]
    page = (ROOT / ".ci" / "schemes.md").read_text()
    values = {
        "herd": _table(HERD_COLUMNS, rows),
        "split": _table(SPLIT_COLUMNS, split_rows(found)),
        "twice": _table(TWICE_COLUMNS, twice_rows(found)),
        "claims": _table(("claimed", "seen"), claims(found)),
        "pictures of orphans": "\n\n".join(
            f"![owners]({name})" for name in sorted(pictures(found)) if "orphans" in name
        ),
        "classic": _classic_states(),
        "members": str(largest),
    }
    for name, text in values.items():
        page = page.replace("{{" + name + "}}", text)
    return {"schemes.md": page, **pictures(found)}


def _classic_states() -> str:
    """The transitions that `State::may_become` allows, as a diagram."""
    source = (ROOT / "native/core/src/group/classic/state.rs").read_text()
    states = re.findall(r"^    (\w+),$", source.partition("pub enum State")[2], re.MULTILINE)
    body = source.partition("fn may_become")[2].partition("\n    }\n")[0]
    lines = ["    [*] --> Empty"]
    for target, condition in re.findall(r"State::(\w+) => ([^\n]*),\n", body):
        if "can_rebalance" in condition:
            sources = [state for state in states if state != "PreparingRebalance"]
        else:
            sources = re.findall(r"State::(\w+)", condition)
        lines += [f"    {one} --> {target}" for one in sources if one != target]
    return "\n".join(lines)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
    return "\n".join(head + [f"| {' | '.join(row)} |" for row in rows])


def main() -> None:
    """Write them, and take over the numbers of a new run."""
    docs = ROOT / "docs"
    if len(sys.argv) > 1:
        found = json.loads((Path(sys.argv[1]) / "lab.json").read_text())
        (docs / NUMBERS).write_text(json.dumps(found) + "\n")
    texts = rendered(json.loads((docs / NUMBERS).read_text()))
    for old in docs.glob("schemes-*.svg"):
        if old.name not in texts:
            old.unlink()
    for name, text in texts.items():
        (docs / name).write_text(text)


if __name__ == "__main__":
    main()
