"""`pykcoord lab`: the herd on real servers at its smallest size, and pictures of what is found."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from support import orphans

from pykcoord import TopicPartition, cli
from pykcoord.cli.lab import beliefs as beliefs_module
from pykcoord.cli.lab import herd, sizes_up_to
from pykcoord.cli.lab.beliefs import Beliefs
from pykcoord.cli.lab.charts import log_log, timeline
from pykcoord.cli.lab.jars import LabError, library_directory
from pykcoord.cli.lab.page import html_page, pictures

ZERO, ONE = TopicPartition("A", 0), TopicPartition("A", 1)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Beliefs:
    """a owns both until 2 s, b one of them from 1 s on, nobody the other from then."""
    moments = iter([0.0, 1.0, 2.0])
    monkeypatch.setattr(beliefs_module, "monotonic_seconds", lambda: next(moments))
    beliefs = Beliefs()
    beliefs.tell("a", [ZERO, ONE])
    beliefs.tell("b", [ONE])
    beliefs.tell("a", [])
    return beliefs


def test_what_members_told_gives_spans_and_sums(told: Beliefs) -> None:
    spans = told.spans(0.5, 4.0)
    assert spans == {ZERO: [(0.0, 1.5, "a")], ONE: [(0.0, 1.5, "a"), (0.5, 3.5, "b")]}
    assert told.unowned([ZERO, ONE], 0.5, 4.0) == (2.0, 1, 1)
    assert told.owned_twice(0.5, 4.0) == 1.0
    assert told.now() == {"a": frozenset(), "b": frozenset({ONE})}


def test_pictures_are_svg_and_a_gap_is_seen(told: Beliefs) -> None:
    spans = {f"{one.topic}-{one.partition}": of for one, of in told.spans(0.5, 4.0).items()}
    chart = timeline("Owners <1>", spans, 3.5, [(1.0, "cut")])
    lines = log_log("Requests", "members", "requests", {"one": [(10, 9), (50, 3089)]})
    for picture in (chart, lines):
        ElementTree.fromstring(picture)
    assert chart.count('fill="#c00"') == 3, "the legend, and the ground of both bars"


def test_sizes() -> None:
    assert (sizes_up_to(4), sizes_up_to(50)) == ([4], [10, 20, 50])
    assert sizes_up_to(500) == [10, 20, 50, 100, 200, 500]


def test_a_machine_without_java_is_told_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("ZOOKEEPER_LIBS", raising=False)
    assert cli.run(["lab", "herd", str(tmp_path / "out")]) == 1
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "Java 17 or newer is needed" in told
    assert not (tmp_path / "out").exists()


@pytest.mark.java
@pytest.mark.timeout(170)
def test_the_herd_at_its_smallest(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        library_directory("zookeeper")
    except LabError as error:
        pytest.skip(str(error))
    monkeypatch.setattr(herd, "HEARTBEAT_SECONDS", 0.3)
    monkeypatch.setattr(herd, "_QUIET_SECONDS", 1.0)
    assert cli.run(["lab", "herd", str(tmp_path), "--members", "8"]) == 0, capsys.readouterr().err
    found = json.loads((tmp_path / "lab.json").read_text())
    rows = {row["scheme"]: row for row in found["herd"]}
    assert rows.keys() == set(herd.SCHEMES)
    real, light = rows[herd.ZOOKEEPER], rows[herd.ZOOKEEPER_LIGHT]
    # N+14 requests of each of the N that stay, as of 0.8.2.2, and 2 of the one that gets another
    # partition.
    assert real["rebalanced"] == light["rebalanced"] == 7
    assert real["needless"] == light["needless"] == 4
    if not real["conflicts"] and not light["conflicts"]:
        assert real["requests"] == light["requests"] == 7 * (7 + 14) + 2
    for scheme in (herd.CLASSIC, herd.COORDINATOR_ASSIGNED):
        assert (rows[scheme]["rebalanced"], rows[scheme]["needless"]) == (7, 4)
        assert rows[scheme]["requests"] == 21
    assert (rows[herd.CONSUMER]["rebalanced"], rows[herd.CONSUMER]["needless"]) == (1, 0)
    page = (tmp_path / "lab.html").read_text()
    assert page == html_page(found)
    assert page.count("<svg") == len(pictures(found)) == 2


@pytest.mark.java
@pytest.mark.timeout(600)
def test_split_brain_in_full(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    if not pytestconfig.getoption("--zookeeper-all"):
        pytest.skip("only with --zookeeper-all")
    assert cli.run(["lab", "split-brain", str(tmp_path)]) == 0
    split = json.loads((tmp_path / "lab.json").read_text())["split_brain"]
    assert sum(one["conflicts"] for one in split["orphans"]) > 0
    assert split["orphans"][-1]["unowned_partition_s"] > 10
    for one in split["read_by_two"].values():
        assert one["read_twice"] > 100
        assert 3 < one["taken_over_after_s"] < 10
    assert split["read_by_two"]["scheme 3"]["commits_refused"] > 0


def _with_argument(text: str) -> list[int]:
    """The processes of this machine with `text` in their command line."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            try:
                if text.encode() in (process / "cmdline").read_bytes():
                    found.append(int(process.name))
            except OSError:
                continue
    return found


@pytest.mark.java
@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("part", "number"),
    [("herd", signal.SIGTERM), ("split-brain", signal.SIGINT), ("split-brain", signal.SIGTERM)],
)
def test_its_servers_end_with_it(tmp_path: Path, part: str, number: signal.Signals) -> None:
    try:
        library_directory("zookeeper")
        library_directory("kafka082")
    except LabError as error:
        pytest.skip(str(error))
    work, out = tmp_path / "work", tmp_path / "out"
    work.mkdir()
    lab = subprocess.Popen(
        [sys.executable, "-m", "pykcoord", "lab", part, str(out)],
        env={**os.environ, "TMPDIR": str(work)}, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    orphans.started(lab)
    try:
        deadline = time.monotonic() + 180
        while not _with_argument(str(work)):
            assert lab.poll() is None
            assert time.monotonic() < deadline, "no server was started"
            time.sleep(0.05)
        lab.send_signal(number)
        assert lab.wait(180) == 130
    finally:
        lab.kill()
        lab.wait()
        orphans.ended(lab)
        left = _with_argument(str(work))
        for process in left:
            os.kill(process, signal.SIGKILL)
    assert left == []
    assert list(work.iterdir()) == [], "its working directory is removed"
    assert not (out / "lab.json").exists()
