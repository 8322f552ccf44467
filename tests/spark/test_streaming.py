"""A stream through Spark: every request is answered once, whichever process is killed at whatever
time."""

from __future__ import annotations

import collections
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.story import START_MS, commit_body, heartbeat_body, row

pytest.importorskip("pyspark")
from pykcoord_spark import __main__ as command_line
from pykcoord_spark.schemas import ddl
from pykcoord_spark.streaming import coordinate

from pykcoord._native import partition_of
from pykcoord.arrow import REQUEST
from pykcoord.errors import ArgumentError
from pykcoord.log.shared import open_logs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent
GROUPS = 50


def requests(first: int, count: int) -> pa.Table:
    """Commits, and a heartbeat of an unknown member after each ninth."""
    rows = []
    for seq in range(first, first + count):
        group, ts = f"group-{seq % GROUPS}", START_MS + seq
        if seq % 10 == 9:
            rows.append(row(seq, ts, group, (12, 3), heartbeat_body(group, "nobody", 1)))
        else:
            rows.append(row(seq, ts, group, (8, 7), commit_body(group, seq % 4, seq)))
    return pa.Table.from_pylist(rows, REQUEST)


def write_requests(folder: Path, files: int, count: int) -> None:
    folder.mkdir(parents=True)
    for number in range(files):
        pq.write_table(requests(number * count, count), folder / f"{number:04}.parquet")
        # Spark takes files by their time.
        os.utime(folder / f"{number:04}.parquet", (number + 1_000_000, number + 1_000_000))


def check_answers(work: Path, shards: int, total: int) -> None:
    """Each request has one answer, its own, and each commit one record."""
    answers = pq.read_table(work / "answers")
    assert sorted(answers["seq"].to_pylist()) == list(range(total))
    for answer in answers.select(["seq", "shard", "group_id", "error_code"]).to_pylist():
        group = f"group-{answer['seq'] % GROUPS}"
        assert (answer["group_id"], answer["shard"]) == (group, partition_of(group, shards))
        assert answer["error_code"] == (25 if answer["seq"] % 10 == 9 else 0)
    written = collections.Counter[str]()
    for log in open_logs(work / "log", shards):
        log.load()
        list(log.follow())
        written[f"shard {log.shard}"] = log.next_offset
    assert sum(written.values()) == total - total // 10, written


def job(work: Path, *more: str) -> list[str]:
    """Arguments of `stream`, from and to folders of WORK, with two shards."""
    return [
        "stream", "--requests", str(work / "requests"), "--option", "maxFilesPerTrigger=1",
        "--out", str(work / "answers"), "--checkpoint", str(work / "checkpoint"), "--shards", "2",
        "--log", str(work / "log"), "--topic", "orders:4", *more,
    ]  # fmt: skip


def test_a_stream_is_answered_once(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_requests(tmp_path / "requests", files=3, count=200)
    assert command_line.run(job(tmp_path, "--available-now")) == 0
    said = capsys.readouterr().out
    assert said.startswith("600 requests in 3 micro-batches, in ")
    assert "answered 600, 60 of them with an error\n" in said
    check_answers(tmp_path, shards=2, total=600)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--available-now", "--every", "1"], "--available-now and --every exclude each other"),
        (["--option", "a"], "--option a: not of the form KEY=VALUE"),
        (["--checkpoint", "new"], "--checkpoint: new is new, and .* has the answers of another"),
    ],
)
def test_a_stream_that_cannot_be_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str], said: str
) -> None:
    (tmp_path / "answers/_spark_metadata").mkdir(parents=True)
    assert command_line.run(job(tmp_path, *more)) > 0
    err = capsys.readouterr().err
    assert re.search(said, err)
    assert err.count("\n") == 1


@pytest.mark.spark_all
def test_a_stream_ends_when_it_is_told_to_and_goes_on_later(
    spark_environment: None, tmp_path: Path
) -> None:
    write_requests(tmp_path / "requests", files=2, count=200)
    command = [sys.executable, "-m", "pykcoord_spark", *job(tmp_path, "--master", "local[2]")]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        commits = tmp_path / "checkpoint" / "commits"
        while last(commits) < 1:
            assert running.poll() is None, running.stderr and running.stderr.read()
            time.sleep(0.05)
        running.terminate()
        said, err = running.communicate(timeout=60)
    finally:
        running.kill()
    assert running.returncode == 0, err
    assert "400 requests in 2 micro-batches" in said
    assert "ended: what is answered is in the log" in err
    for each in ("0000", "0001"):
        (tmp_path / "requests" / f"{each}.parquet").rename(tmp_path / f"{each}.parquet")
    pq.write_table(requests(400, 200), tmp_path / "requests/0002.parquet")
    subprocess.run([*command, "--available-now"], check=True, timeout=300)
    check_answers(tmp_path, shards=2, total=600)


def test_what_cannot_be_coordinated_is_refused_at_once(spark: SparkSession, tmp_path: Path) -> None:
    table = spark.createDataFrame([], ddl(REQUEST))
    with pytest.raises(ArgumentError, match=r"stream: is no stream: replay\(\) is for tables"):
        coordinate(table, 2, tmp_path / "log")
    (tmp_path / "requests").mkdir()
    stream = spark.readStream.schema(ddl(REQUEST)).parquet(str(tmp_path / "requests"))
    open_logs(tmp_path / "log", 3)
    with pytest.raises(ArgumentError, match="has 3 shards: ask for as many, or another log"):
        coordinate(stream, 2, tmp_path / "log")
    with pytest.raises(ArgumentError, match="stream: has no column payload BINARY"):
        coordinate(stream.drop("payload"), 3, tmp_path / "log")
    with pytest.raises(ArgumentError, match="shards: 200000"):
        coordinate(stream, 200_000, tmp_path / "none")
    assert not (tmp_path / "none").exists()


@pytest.mark.spark_all
@pytest.mark.timeout(900)
def test_workers_that_die_after_the_append_and_a_driver_killed_three_times(
    spark_environment: None, tmp_path: Path
) -> None:
    files, count, shards = 16, 1_000, 4
    write_requests(tmp_path / "requests", files, count)
    path = os.pathsep.join([str(HERE / "dying"), os.environ["PYTHONPATH"]])
    environment = os.environ | {"PYTHONPATH": path, "PYKCOORD_DYING": "0.05"}
    command = [sys.executable, str(HERE / "streaming_job.py"), str(tmp_path), str(shards)]
    commits, planned = tmp_path / "checkpoint" / "commits", tmp_path / "checkpoint" / "offsets"
    kills = (2, 6, 10)
    for killed_at in kills:
        driver = subprocess.Popen(command, env=environment, start_new_session=True)
        while len(list(commits.glob("[0-9]*"))) == 0 or last(commits) < killed_at:
            assert driver.poll() is None, "the driver ended before it was killed"
            time.sleep(0.05)
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    subprocess.run(command, env=environment, check=True, timeout=600)
    # Where a driver dies between listing a file and planning its batch, Spark plans two together.
    assert last(commits) == last(planned)
    assert files - 1 - len(kills) <= last(commits) <= files - 1
    check_answers(tmp_path, shards, files * count)


def last(batches: Path) -> int:
    """The last micro-batch that Spark planned, or holds to be done."""
    return max((int(each.name) for each in batches.glob("[0-9]*")), default=-1)
