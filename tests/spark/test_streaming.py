"""A stream through Spark: every request is answered once, whoever is killed when."""

from __future__ import annotations

import collections
import os
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
from pykcoord_spark.schemas import ddl
from pykcoord_spark.shard_log import open_logs
from pykcoord_spark.streaming import coordinate

from pykcoord._native import partition_of
from pykcoord.arrow import REQUEST
from pykcoord.errors import ArgumentError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent
GROUPS = 50


def requests(first: int, count: int) -> pa.Table:
    """Commits, and a heartbeat of nobody after each ninth."""
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


def test_a_stream_is_answered_once(spark: SparkSession, tmp_path: Path) -> None:
    write_requests(tmp_path / "requests", files=3, count=200)
    stream = spark.readStream.schema(ddl(REQUEST)).option("maxFilesPerTrigger", 1)
    answers = coordinate(
        stream.parquet(str(tmp_path / "requests")), 2, tmp_path / "log", topics={"orders": 4}
    )
    query = (
        answers.writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "answers"))
    )
    assert query.awaitTermination(120)
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


@pytest.mark.spark_all
@pytest.mark.timeout(900)
def test_workers_that_die_after_the_append_and_a_driver_killed_three_times(
    spark_environment: None, tmp_path: Path
) -> None:
    files, count, shards = 44, 2_000, 4
    write_requests(tmp_path / "requests", files, count)
    path = os.pathsep.join([str(HERE / "dying"), os.environ["PYTHONPATH"]])
    environment = os.environ | {"PYTHONPATH": path, "PYKCOORD_DYING": "0.05"}
    command = [sys.executable, str(HERE / "streaming_job.py"), str(tmp_path), str(shards)]
    commits = tmp_path / "checkpoint" / "commits"
    for killed_at in (8, 18, 30):
        driver = subprocess.Popen(command, env=environment, start_new_session=True)
        while len(list(commits.glob("[0-9]*"))) == 0 or last(commits) < killed_at:
            assert driver.poll() is None, "the driver ended before it was killed"
            time.sleep(0.05)
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    subprocess.run(command, env=environment, check=True, timeout=600)
    assert last(commits) == files - 1
    check_answers(tmp_path, shards, files * count)


def last(commits: Path) -> int:
    """The last micro-batch that Spark holds to be done."""
    return max((int(each.name) for each in commits.glob("[0-9]*")), default=-1)
