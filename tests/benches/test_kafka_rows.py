"""What stands beside Kafka: the pairs fit both programs, and the README's table can be written."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest
from support.kafka.jars import VERSION

# benches is no part of the package; what runs it stands at the root.
sys.path.append(str(Path(__file__).parents[2]))

from benches import counts
from benches.kafka import in_process, run
from benches.kafka.rows import Row, markdown

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


def test_the_table_of_the_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    readme = (ROOT / "README.md").read_text()
    (tmp_path / "README.md").write_text(readme)
    monkeypatch.setattr(run, "ROOT", tmp_path)
    on = dict.fromkeys(("kafka", "pykcoord", "cores", "processor", "date", "commit"), "7")
    run.write_readme(ROWS, {**on, **dict.fromkeys(("platform", "java", "python", "rust"), "8")})
    written = (tmp_path / "README.md").read_text()
    before, after = readme.split(run.MARK)[0], readme.split("<!-- make bench-assignors -->")[1]
    assert written.startswith(before)
    assert written.endswith(after)
    assert "| timers added | M/s |" in written
