"""The Python of docs/spark.md and docs/spark-offsets.md, from top to bottom in one session, as it
stands there.

Only its paths, the group that it looks for and how many shards and hosts there are are those of the
test. The brokers of its example of a live cluster are not there, so that one is not read from.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from support import segments
from support.pages import examples_of

pytest.importorskip("pyspark")
from pykcoord_spark.schemas import ddl

from pykcoord.arrow import REQUEST
from pykcoord.log import LogReader

from .test_streaming import requests

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

PAGES = ["docs/spark.md", "docs/spark-offsets.md"]
MEMBERS = [("billing", "a", ["orders"]), ("billing", "b", ["orders"]), ("audit", "c", ["orders"])]


@pytest.fixture
def names(spark: SparkSession, tmp_path: Path) -> dict[str, Any]:
    """The names that the pages' examples use: a session, members, events, and a stream of
    requests."""
    pq.write_table(requests(0, 50), tmp_path / "part.parquet")
    (tmp_path / "requests").mkdir()
    pq.write_table(requests(0, 50), tmp_path / "requests/part.parquet")
    schema = "group_id STRING, member_id STRING, topics ARRAY<STRING>"
    return {
        "spark": spark,
        "members": spark.createDataFrame(MEMBERS, schema),
        "events": spark.read.schema(ddl(REQUEST)).parquet(str(tmp_path / "part.parquet")),
        "requests": spark.readStream.schema(ddl(REQUEST)).parquet(str(tmp_path / "requests")),
    }


def test_the_examples_run_one_after_the_other(
    names: dict[str, Any], spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    segments.unpack(segments.OWN / "transactions-2", tmp_path / "kafka")
    paths = {
        "/var/kafka/data": "kafka",
        "/shared/": ".",
        "groups-log": "groups-log",
        "history": "history",
        "history.checkpoint": "history.checkpoint",
        "billing-history": "billing-history",
    }
    group = next(iter(segments.expected(tmp_path / "kafka")["offsets"]))
    for code, page in [(code, of) for of in PAGES for code, _ in examples_of(of)]:
        for there, here in paths.items():
            whole = f'"{there}' if there.endswith("/") else f'"{there}"'
            end = "/" if there.endswith("/") else '"'
            code = code.replace(whole, f'"{tmp_path / here}{end}')
        # A host takes a slot of the session, which has two.
        code = code.replace("cluster.wait()", "cluster.check()").replace("hosts=3", "hosts=1")
        code = re.sub(r"shards=\d+", "shards=2", code).replace("'billing'", f"'{group}'")
        exec(compile(code, page, "exec"), names)
        for query in spark.streams.active:
            query.processAllAvailable()
            query.stop()

    owners = {(row.group_id, row.member_id): row.partitions for row in names["assigned"].collect()}
    assert [len(owners[group, member]) for group, member, _ in MEMBERS] == [6, 6, 12]
    assert pq.read_table(tmp_path / "answers").num_rows == 50
    assert pq.read_table(tmp_path / "history").num_rows > names["rows"].count() > 0
    assert names["live"].columns == names["rows"].columns
    written = LogReader.open(tmp_path / "billing-history")
    assert sum(1 for number in written.partitions for _ in written.read(number)) > 0
    printed = capfd.readouterr().out
    assert "127.0.0.1:" in printed, "the bootstrap address of the hosted cluster"
