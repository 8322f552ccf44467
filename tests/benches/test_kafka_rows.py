"""The comparison with Kafka: the pairs fit both programs, and the tables of the pages can be
written."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest
from support.kafka.jars import VERSION

# benches is not part of the package; it is run from the root.
sys.path.append(str(Path(__file__).parents[2]))

from benches import counts
from benches.kafka import in_process, run
from benches.kafka.rows import HEADLINES, Row, headlines, markdown

ROOT = Path(__file__).parents[2]
ROWS = [
    Row.of_rounds("timers added", "M/s", [2.0, 1.0, 3.0], [8.0, 5.0, 9.0], least=3, note="warm"),
    Row("purgatory", "M/s", 2.0, 8.0, least=5),
]


@pytest.mark.parametrize("pair", in_process.PAIRS, ids=lambda pair: pair.name)
def test_a_pair_names_what_there_is(pair: in_process.Pair) -> None:
    bounds = counts.Bounds.read(counts.BOUNDS.read_text())
    assert {*pair.axes, *(axis for _, axis in pair.also)} <= set(bounds.by_axis)
    for benchmark in pair.benchmarks:
        file, method = benchmark.split(".")
        source = (in_process.SOURCES / f"src/main/java/pykcoord/benches/{file}.java").read_text()
        assert re.search(rf"@Benchmark\s+public \w+ {method}\(", source), benchmark


def test_a_row_is_read_back_as_it_was_written() -> None:
    written = json.loads(json.dumps([row.as_json() for row in ROWS]))
    assert [Row.of_json(told) for told in written] == ROWS


def test_a_missed_goal_is_shown() -> None:
    met, missed = markdown(ROWS).splitlines()[2:]
    assert met == (
        "| timers added | M/s | 2.000 | 8.000 | 4.00x | 3.00x to 5.00x | >= 3x | met | warm |"
    )
    assert missed.endswith("| 4.00x |  | >= 5x | **missed** |  |")


def test_a_missed_goal_is_told_with_the_name_of_its_axis() -> None:
    below = Row("", "p99 ms", 1.0, 2.0, most=1)
    assert run.names_of_missed([ROWS[0], below, ROWS[1]]) == [
        "timers added, p99 ms",
        "purgatory, M/s",
    ]


def test_the_last_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "WHOLE", tmp_path / "compare.json")
    monkeypatch.setattr(run, "PART", tmp_path / "compare-part.json")
    with pytest.raises(SystemExit, match="nothing was measured yet"):
        run.last(only_whole=False)
    run.PART.touch()
    assert run.last(only_whole=False) == run.PART
    with pytest.raises(SystemExit, match="no whole run was measured yet"):
        run.last(only_whole=True)
    run.WHOLE.touch()
    os.utime(run.WHOLE, (1, 1))
    assert run.last(only_whole=False) == run.PART
    assert run.last(only_whole=True) == run.WHOLE


def test_both_sides_are_of_one_kafka() -> None:
    pom = (in_process.SOURCES / "pom.xml").read_text()
    assert f"<kafka.version>{VERSION}</kafka.version>" in pom


@pytest.fixture
def pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copies of the pages that a run writes to."""
    (tmp_path / "docs").mkdir()
    for name in ("README.md", "docs/benchmarks.md"):
        (tmp_path / name).write_text((ROOT / name).read_text())
    monkeypatch.setattr(run, "ROOT", tmp_path)
    return tmp_path


def _around(page: str) -> tuple[str, str]:
    """The text before and behind the table."""
    before, _, rest = page.partition(run.MARK)
    return before, rest.partition("<!-- end -->")[2]


def test_a_run_writes_the_tables_of_both_pages(pages: Path) -> None:
    rows = [*ROWS, *(Row(name, unit, 2.0, 8.0) for name, unit in HEADLINES)]
    on = dict.fromkeys(("kafka", "pykcoord", "cores", "processor", "date", "commit"), "7")
    run.write_documents(rows, {**on, **dict.fromkeys(("platform", "java", "python", "rust"), "8")})
    for name in ("README.md", "docs/benchmarks.md"):
        assert _around((pages / name).read_text()) == _around((ROOT / name).read_text())
    assert "| timers added | M/s |" in (pages / "docs/benchmarks.md").read_text()
    assert headlines(rows) in (pages / "README.md").read_text()


def test_the_figures_of_the_readme_are_those_of_the_table() -> None:
    """The first page that is read must not promise what is no longer measured."""
    table = (ROOT / "docs/benchmarks.md").read_text().partition(run.MARK)[2].splitlines()
    shown = (ROOT / "README.md").read_text().partition(run.MARK)[2].partition("<!-- end -->")[0]
    expected = []
    for (name, unit), words in HEADLINES.items():
        line = next(line for line in table if line.startswith(f"| {name} | {unit} |"))
        _, _, _, kafka, own, ratio, *_ = (cell.strip() for cell in line.split("|"))
        expected.append(f"| {words} | {kafka} | {own} | {ratio} |")
    assert shown.split("\n")[3:-1] == [*expected, ""]
    assert len(expected) == 4
