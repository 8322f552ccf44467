"""The documented commands on every kind of cluster that fits one machine: the same comes out.

Long: each starts JVMs of its own. All of them are on 127.0.0.1, and end with the test.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")
import pyarrow as pa
import pykcoord_spark as ks
from support import segments
from support.spark_clusters import BIN, connect, environment, standalone
from support.spark_events import requests

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark_all, pytest.mark.timeout(900)]

JOB_SECONDS = 400.0
SHARDS = 4


class Files:
    """The input of jobs, and their results."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.spark, self.root = spark, root
        self.events, self.members = root / "events", root / "members"
        requests(spark, 20_000, 500).write.parquet(str(self.events))
        members = "concat('group-', id % 100) as group_id", "concat('m-', id) as member_id"
        rows = spark.range(400).selectExpr(*members, "array('orders') as topics")
        rows.write.parquet(str(self.members))
        self.log = segments.unpack(segments.OWN / "classic-2", root / "log")
        expected = segments.expected(self.log)["offsets"]
        self.offsets = sum(len(of) for topics in expected.values() for of in topics.values())
        with ks.replay(spark.read.parquet(str(self.events)), SHARDS) as replayed:
            self.told = _rows(replayed)

    def replay(self, out: str) -> list[str]:
        events = ["--events", str(self.events), "--shards", str(SHARDS)]
        return ["replay", *events, "--out", str(self.root / out)]

    def assign(self, out: str) -> list[str]:
        members = ["--members", str(self.members), "--topic", "orders:16"]
        return ["assign", "cooperative-sticky", *members, "--out", str(self.root / out)]

    def inspect(self) -> list[str]:
        return ["inspect", str(self.log), "--at", "2100-01-01", "--rows", "3"]

    def check_inspected(self, said: str) -> None:
        assert f"(the first 3 of {self.offsets:,})" in said

    def check(self, name: str) -> None:
        """What `replay` and `assign` wrote under `name` is what it is here."""
        assert _rows(ks.Replay.load(self.spark, self.root / f"{name}-replayed")).equals(self.told)
        assigned = self.spark.read.parquet(str(self.root / f"{name}-assigned"))
        row = assigned.selectExpr("count(*)", "sum(size(partitions))").collect()[0]
        assert tuple(row) == (400, 1600)


def _rows(replayed: ks.Replay) -> pa.Table:
    rows = replayed.envelope.where("kind < 2").toArrow()
    rows = rows.sort_by([(name, "ascending") for name in ("kind", "shard", "offset", "seq")])
    # Without the schema: a column that may not be NULL may be so once Spark has read it of a file.
    return pa.table(dict(zip(rows.column_names, rows.columns, strict=True)))


@pytest.fixture(scope="module")
def files(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(spark, tmp_path_factory.mktemp("clusters"))


def _run(*command: str) -> str:
    result = subprocess.run(
        command, env=environment(), capture_output=True, text=True, timeout=JOB_SECONDS, check=False
    )
    assert result.returncode == 0, result.stderr[-4000:]
    return result.stdout


def _job(*arguments: str) -> str:
    return _run(sys.executable, "-m", "pykcoord_spark", *arguments)


@pytest.mark.parametrize("master", ["local[2]", "local-cluster[2,1,1024]"])
def test_on_a_master_of_its_own(files: Files, master: str) -> None:
    name = master.partition("[")[0]
    said = _job(*files.replay(f"{name}-replayed"), "--master", master)
    assert said.startswith("20,000 requests in ")
    said = _job(*files.assign(f"{name}-assigned"), "--master", master)
    assert said.startswith("100 groups assigned by cooperative-sticky in ")
    files.check(name)
    files.check_inspected(_job(*files.inspect(), "--master", master))


def test_by_spark_submit_on_a_standalone_cluster(files: Files) -> None:
    """With the archive of `pack`, on two workers."""
    archive = files.root / "kcoord_site.zip"
    _job("pack", "-o", str(archive))
    with standalone(files.root) as master:
        submit = [
            str(BIN / "spark-submit"), "--master", master,
            "--archives", f"{archive}#kcoord_site",
            "--conf", "spark.executorEnv.PYTHONPATH=kcoord_site",
            "--conf", "spark.executor.memory=512m", "--conf", "spark.driver.host=127.0.0.1",
            "--conf", "spark.ui.enabled=false",
            _job("main-path").strip(),
        ]  # fmt: skip
        _run(*submit, *files.replay("standalone-replayed"))
        _run(*submit, *files.assign("standalone-assigned"))
        files.check_inspected(_run(*submit, *files.inspect()))
    files.check("standalone")


def test_through_spark_connect(files: Files) -> None:
    with connect(files.root) as remote:
        _job(*files.replay("connect-replayed"), "--remote", remote)
        _job(*files.assign("connect-assigned"), "--remote", remote)
        files.check_inspected(_job(*files.inspect(), "--remote", remote))
    files.check("connect")
