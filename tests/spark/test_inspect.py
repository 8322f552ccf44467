"""`inspect`: the report on a history of offsets, as tables and as a page."""

from __future__ import annotations

import html.parser
import importlib.util
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support import batches, segments

from pykcoord.errors import LogError

pytest.importorskip("pyspark")
from pykcoord_spark import __main__ as command_line
from pykcoord_spark.inspecting import history
from pykcoord_spark.inspecting import report as report_module
from pykcoord_spark.inspecting.page import page
from pykcoord_spark.inspecting.report import COLUMNS, Limits, Report, Table, report_of
from pykcoord_spark.source.schema import DDL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MINUTE = 60_000
_NAMES = [column.split()[0] for column in DDL.split(", ")]


def _row(offset: int, minute: float, group: str | None, **more: Any) -> tuple[Any, ...]:
    row: dict[str, Any] = {
        "partition": 0, "offset": offset, "timestamp": round(minute * _MINUTE), "group_id": group,
        "kind": "OffsetCommit", "topic": "orders", "topic_partition": 0, "metadata": "",
        "tombstone": False, **more,
    }  # fmt: skip
    return tuple(row.get(name) for name in _NAMES)


def _rows() -> list[tuple[Any, ...]]:
    """Minutes 0 to 59. `back` goes back, `still` repeats itself, `uneven` leaves a partition,
    `nervous` rebalances, `exact` commits in transactions, `gone` deletes its offset."""
    rows: list[tuple[Any, ...]] = []

    def add(minute: float, group: str | None, **more: Any) -> None:
        rows.append(_row(len(rows), minute, group, **more))

    for minute in range(60):
        add(minute, "back", committed=100 * minute if minute != 40 else 5)
        add(minute, "still", committed=min(minute, 30) * 10)
        add(minute, "uneven", committed=minute, topic_partition=0)
        if minute < 20:
            add(minute, "uneven", committed=minute, topic_partition=1)
    for generation in range(1, 9):
        add(10 + generation / 2, "nervous", kind="GroupMetadata", topic=None, topic_partition=None,
            generation=generation)  # fmt: skip
    for committed, outcome in ((7, "COMMIT"), (9, "ABORT"), (11, None)):
        add(50, "exact", committed=committed, producer_id=3, producer_epoch=0)
        if outcome:
            add(51, None, kind=outcome, producer_id=3, topic=None, topic_partition=None)
    add(20, "gone", committed=1)
    add(30, "gone", tombstone=True)
    return rows


@pytest.fixture(scope="module")
def told(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(_rows(), DDL).coalesce(1).cache()


def _of(df: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in df.select(*columns).collect()]


def test_commits_that_went_back(told: DataFrame) -> None:
    columns = ("group_id", "topic_partition", "timestamp", "before", "committed", "by")
    assert _of(history.rewinds(told), *columns) == [("back", 0, 40 * _MINUTE, 3900, 5, 3895)]


def test_partitions_that_are_stuck(told: DataFrame) -> None:
    columns = ("group_id", "topic_partition", "why", "committed", "since", "last")
    assert _of(history.stuck(told), *columns) == [
        ("uneven", 1, "no commits", 19, 19 * _MINUTE, 19 * _MINUTE),
        ("still", 0, "same offset", 300, 30 * _MINUTE, 59 * _MINUTE),
    ]
    assert _of(history.stuck(told, 50 * _MINUTE), "group_id") == []


def test_groups_that_flap(told: DataFrame) -> None:
    columns = ("group_id", "most", "timestamp", "generation")
    assert _of(history.flaps(told), *columns) == [("nervous", 8, 14 * _MINUTE, 8)]
    assert _of(history.flaps(told, within_ms=_MINUTE), "group_id") == []
    assert _of(history.flaps(told, at_least=3, within_ms=_MINUTE), "most") == [(3,)]


def test_offsets_at_a_time(told: DataFrame) -> None:
    def at(minute: int) -> dict[str, int]:
        found = history.offsets_at(told, minute * _MINUTE).where("topic_partition = 0")
        return {row.group_id: row.committed for row in found.collect()}

    assert at(25) == {"back": 2500, "still": 250, "uneven": 25, "gone": 1}
    assert at(59) == {"back": 5900, "still": 300, "uneven": 59, "exact": 7}


def test_groups_and_what_they_did(told: DataFrame) -> None:
    columns = ("group_id", "commits", "deleted", "partitions", "rebalances", "first", "last")
    assert _of(history.groups(told), *columns) == [
        ("uneven", 80, 0, 2, 0, 0, 59 * _MINUTE),
        ("back", 60, 0, 1, 0, 0, 59 * _MINUTE),
        ("still", 60, 0, 1, 0, 0, 59 * _MINUTE),
        ("exact", 1, 0, 1, 0, 50 * _MINUTE, 50 * _MINUTE),
        ("gone", 1, 1, 1, 0, 20 * _MINUTE, 30 * _MINUTE),
        ("nervous", 0, 0, 0, 8, None, None),
    ]


class _Page(html.parser.HTMLParser):
    """The tags that are opened, and everything that is loaded from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.loaded += [
            value
            for name, value in attrs
            if name in ("src", "href", "xlink:href") and value and not value.startswith("#")
        ]


@pytest.fixture(scope="module")
def report(told: DataFrame) -> Report:
    return report_of(told, "pykcoord-data", Limits(rows=2), at_ms=25 * _MINUTE)


def test_the_page_shows_what_was_found(report: Report) -> None:
    pytest.importorskip("matplotlib")
    assert report.tables["groups"].total == 6
    assert len(report.tables["groups"].rows) == 2
    assert sum(count for points in report.activity.values() for _, count in points) == 202
    text = page(report)
    shown = _Page()
    shown.feed(text)
    assert shown.loaded == []
    assert shown.tags.count("svg") == 3
    assert shown.tags.count("table") == 5
    assert "And 4 more." in text
    assert "1970-01-01 00:40:00Z" in text


def _plotted(text: str, axis: int) -> list[str]:
    """The texts of an axis, or of all after it with the legend, of the first plot."""
    svg = text[text.index("<svg") : text.index("</svg>")]
    return re.findall("<!-- (.*?) -->", svg.partition(f'<g id="matplotlib.axis_{axis}">')[2])


def _counts(**groups: list[int]) -> Report:
    report = Report("log", last_ms=60 * _MINUTE, bucket_ms=_MINUTE)
    report.activity = {
        group: [(minute * _MINUTE, count) for minute, count in enumerate(counts)]
        for group, counts in groups.items()
    }
    return report


@pytest.mark.parametrize("count", [1, 2, 3])
def test_ticks_are_whole_numbers_and_each_is_there_once(count: int) -> None:
    pytest.importorskip("matplotlib")
    told = _plotted(page(_counts(few=[count, 1])), 2)
    assert told == [*map(str, range(count + 1)), "per 1 min", "few"]


def test_the_legend_names_no_group_that_cannot_be_seen() -> None:
    pytest.importorskip("matplotlib")
    told = _plotted(page(_counts(busy=[5000, 4000], seen=[60], quiet=[3, 9])), 2)
    assert told[-3:] == ["busy", "seen", "others, too few to see"]
    told = _plotted(page(_counts(busy=[5000, 4000], quiet=[3, 49], still=[20, 10])), 2)
    assert told[-2:] == ["busy", "all others"], "together they can be seen"


def test_no_card_of_the_page_wraps_alone(report: Report) -> None:
    """One row of as many columns, or one column."""
    pytest.importorskip("matplotlib")
    text = page(report)
    columns = re.findall(r"grid-template-columns: (?:repeat\((\d+), 1fr\)|(1fr))", text)
    assert columns == [(str(text.count("<dt>")), ""), ("", "1fr")]


def test_without_transactions_none_are_looked_for(told: DataFrame) -> None:
    def plan(df: DataFrame) -> str:
        return str(history.commits(df)._jdf.queryExecution().optimizedPlan().toString())

    assert "Window" in plan(told)
    assert "Window" not in plan(report_module._without_producers(told))


@pytest.mark.parametrize(("limit", "brief"), [(1 << 20, True), (0, False)])
def test_a_small_log_is_a_brief_job_and_says_what_it_does(
    limit: int, brief: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []

    def opened(name: str, **options: Any) -> None:
        asked.append(options)
        raise LogError("enough")

    monkeypatch.setattr("pykcoord_spark.jobs.inspect.opened", opened)
    monkeypatch.setattr("pykcoord_spark.jobs.inspect._BRIEF_BYTES", limit)
    directory = segments.unpack(segments.OWN / "classic-2", tmp_path / "log")
    assert command_line.run(["inspect", str(directory)]) == 1
    assert command_line.run(["inspect", str(tmp_path / "only-executors-see-it")]) == 1
    assert [(each["brief"], each["bar"]) for each in asked] == [(brief, False), (False, False)]


def test_ids_of_groups_are_no_markup() -> None:
    report = Report("<x>", kinds=[("<b>", 1)])
    group = "<script>$x_{1}$"
    report.tables["groups"] = Table(["group_id"], [(group,)], 1)
    report.activity = {group: [(0, 1)]}
    text = page(report)
    assert not re.search("<script>|<x>|<b>", text)
    assert "&lt;script&gt;" in text


def test_the_job(
    spark: SparkSession,
    report: Report,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Its questions and its output: the answers are those of the report above."""
    asked = []

    def answered(
        df: DataFrame,
        source: str,
        limits: Limits,
        at_ms: int | None,
        groups: Sequence[str],
        progress: Callable[[str], None],
    ) -> Report:
        progress("asking")
        asked.append((df.columns, source, limits, at_ms, groups))
        return report

    monkeypatch.setattr("pykcoord_spark.inspecting.report.report_of", answered)
    directory = segments.unpack(segments.OWN / "classic-2", tmp_path / "log")
    target = tmp_path / "page.html"
    arguments = ["--html", str(target), "--at", "1970-01-01T00:25", "--rows", "2"]
    assert command_line.run(["inspect", str(directory), *arguments]) == 0
    assert asked == [(list(COLUMNS), str(directory), Limits(rows=2), 25 * _MINUTE, ())]
    said = capsys.readouterr()
    assert "(the first 2 of 6)" in said.out
    assert "  asking ...\n" in said.err
    assert "Offset history" in target.read_text()


@pytest.mark.parametrize("scenario", ["consumer-1", "migration-1"])
def test_epochs_of_consumer_groups_are_rebalances(
    spark: SparkSession, tmp_path: Path, scenario: str
) -> None:
    """The newest one of each group that Kafka reads is the newest that the report counts."""
    log = segments.unpack(segments.OWN / scenario, tmp_path / "log")
    df = spark.read.format("consumer_offsets").load(str(log))
    found = history.rebalances(df.select(*COLUMNS)).toArrow().to_pylist()
    newest: dict[str, int] = {}
    for row in found:
        newest[row["group_id"]] = max(row["generation"], newest.get(row["group_id"], 0))
    groups = segments.expected(log)["groups"].items()
    epochs = {name: of["groupEpoch"] for name, of in groups if of["type"] == "consumer"}
    assert epochs != {}
    assert {name: newest[name] for name in epochs} == epochs


def _transactions(folder: Path, *groups: str) -> None:
    """Of each group: offset 30 committed in a transaction, 20 in another, 50 in one aborted."""
    folder.mkdir(parents=True)
    log, offset = bytearray(), 0
    for producer_id, group in enumerate(groups):
        name = group.encode()
        key = b"\0\1" + len(name).to_bytes(2, "big") + name + b"\0\1t\0\0\0\0"
        for committed, kind in ((30, batches.COMMIT), (20, batches.COMMIT), (50, batches.ABORT)):
            value = b"\0\3" + committed.to_bytes(8, "big") + b"\0\0\0\1\0\0" + b"\0" * 8
            log += batches.data(offset, [(key, value)], producer_id).encode()
            log += batches.marker(offset + 1, producer_id, kind).encode()
            offset += 2
    (folder / f"{0:020d}.log").write_bytes(log)


@pytest.mark.spark_all
def test_groups_with_transactions(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report on one group equals its part in the report on all, also if its id has a comma."""
    _transactions(tmp_path / "log" / "__consumer_offsets-0", "a", "b", "a,b")
    reports: list[Report] = []
    monkeypatch.setattr("pykcoord_spark.jobs.inspect._print", reports.append)
    for groups in (["a"], ["a,b"], ["b", "a"]):
        chosen = [word for group in groups for word in ("--group", group)]
        command = ["inspect", str(tmp_path / "log"), "--at", "2100-01-01", *chosen]
        assert command_line.run(command) == 0
        report = reports.pop()
        groups.sort()
        assert report.records == 3 * len(groups)
        assert report.kinds == [("OffsetCommit", 3 * len(groups))]
        assert [row[:2] for row in report.tables["groups"].rows] == [(of, 2) for of in groups]
        assert [(row[0], row[-1]) for row in report.tables["rewinds"].rows] == [
            (of, 10) for of in groups
        ]
        assert [(row[0], row[3]) for row in report.tables["offsets"].rows] == [
            (of, 20) for of in groups
        ]


def test_no_such_group_is_an_error(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Though the markers of all groups are read."""
    _transactions(tmp_path / "__consumer_offsets-0", "a")
    assert command_line.run(["inspect", str(tmp_path), "--group", "b"]) == 1
    assert "none of these groups" in capsys.readouterr().err


def test_a_page_without_matplotlib_is_refused_before_anything_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "matplotlib" else find(name)
    )
    assert command_line.run(["inspect", str(tmp_path), "--html", str(tmp_path / "page.html")]) == 1
    assert capsys.readouterr().err.endswith("pip install 'pykcoord-spark[plots]'\n")


@pytest.mark.spark_all
def test_the_job_on_a_directory(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = segments.unpack(segments.OWN / "classic-2", tmp_path / "log")
    assert command_line.run(["inspect", str(directory), "--at", "2100-01-01", "--rows", "3"]) == 0
    expected = segments.expected(directory)["offsets"]
    offsets = sum(len(partitions) for of in expected.values() for partitions in of.values())
    assert f"(the first 3 of {offsets:,})" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "give PATH or --bootstrap-servers, one of them"),
        (["x", "--bootstrap-servers", "y:1"], "give PATH or --bootstrap-servers, one of them"),
        (["x", "--at", "noon"], "--at noon: neither ISO 8601"),
        (["x", "--kafka", "a=b"], "--kafka goes with --bootstrap-servers"),
        (["--bootstrap-servers", "y:1", "--kafka", "a"], "--kafka a: not of the form KEY=VALUE"),
    ],
)
def test_wrong_usage_is_one_line(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line.run(["inspect", *arguments]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1
