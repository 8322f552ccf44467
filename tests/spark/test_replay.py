"""`replay`: on Spark the engine says what it says without, record for record."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")
import pyarrow as pa
import pyarrow.compute as pc
import pykcoord_spark as ks
from pykcoord_spark.__main__ import run
from pykcoord_spark.replaying import ReplayTask, shard_seed
from pykcoord_spark.schemas import ddl
from pykcoord_spark.state import begin_state, check_state, load_checkpoint, store_checkpoint
from support.spark_events import START_MS, requests

from pykcoord import ArrowShard, _native
from pykcoord.arrow import ENVELOPE, REQUEST
from pykcoord.errors import ArgumentError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SHARDS = 4


def _direct(events: pa.Table, shards: int) -> pa.Table:
    """The engine's answers to a table, each shard's requests in one batch."""
    groups = events.column("group_id").unique()
    shard_of = pa.array([_native.partition_of(each.as_py(), shards) for each in groups])
    places = pc.index_in(events.column("group_id"), groups)
    events = events.append_column("shard", pc.take(shard_of, places))
    told = []
    for shard in range(shards):
        rows = events.filter(pc.equal(events.column("shard"), shard))
        rows = rows.sort_by([("ts", "ascending"), ("seq", "ascending")]).combine_chunks()
        engine = ArrowShard(None, seed=shard_seed(b"", shard), shard=shard, shards=shards)
        told += [engine.process(batch) for batch in rows.select(REQUEST.names).to_batches()]
    return pa.Table.from_batches(told, ENVELOPE)


def _rows(envelope: pa.Table, kind: int, order: str) -> pa.Table:
    rows = envelope.filter(pc.equal(envelope.column("kind"), kind))
    return rows.sort_by([("shard", "ascending"), (order, "ascending")])


def _differences(replayed: DataFrame, direct: pa.Table) -> list[str]:
    found = replayed.where("kind < 2").toArrow().cast(ENVELOPE)
    wrong = []
    for kind, order in ((0, "seq"), (1, "offset")):
        theirs, ours = _rows(found, kind, order), _rows(direct, kind, order)
        assert ours.num_rows, "nothing to compare"
        wrong += [name for name in ENVELOPE.names if not theirs[name].equals(ours[name])]
    return wrong


@pytest.mark.parametrize(
    ("count", "groups", "shards"),
    [(3_000, 200, SHARDS), pytest.param(1_000_000, 100_000, 50, marks=pytest.mark.spark_all)],
)
def test_a_replay_is_a_direct_run(
    spark: SparkSession, count: int, groups: int, shards: int
) -> None:
    events = requests(spark, count, groups)
    with ks.replay(events, shards) as replayed:
        summary = replayed.summary.collect()
        assert _differences(replayed.envelope, _direct(events.toArrow(), shards)) == []
        assert sorted(row.shard for row in summary) == list(range(shards))
        assert sum(row.requests for row in summary) == count
        assert sum(row.records for row in summary) == replayed.records.count()
        assert sum(row.responses for row in summary) == replayed.responses.count()
        # The engine ran once for all of these: its cost has not grown.
        assert sorted(replayed.summary.collect()) == sorted(summary)


def test_a_replay_goes_on_from_the_state_of_another(spark: SparkSession, tmp_path: Path) -> None:
    events = requests(spark, 2_000, 100)
    half = START_MS + 10_000
    with ks.replay(events, SHARDS) as whole:
        expected = whole.envelope.where("kind < 2").toArrow()
    state, out = tmp_path / "state", tmp_path / "out"
    with ks.replay(events.where(f"ts < {half}"), SHARDS, checkpoints=state) as first:
        told = [first.envelope.where("kind < 2").toArrow()]
    second = ks.replay(events.where(f"ts >= {half}"), SHARDS, state, out=out)
    assert not second.responses.isEmpty()
    told.append(ks.Replay.load(spark, out).envelope.where("kind < 2").toArrow())
    told[1] = told[1].cast(told[0].schema)
    found = pa.concat_tables(told)
    for kind, order in ((0, "seq"), (1, "offset")):
        assert _rows(found, kind, order).equals(_rows(expected, kind, order))
    with pytest.raises(Exception, match="column ts"):
        ks.replay(events, SHARDS, state).summary.collect()


def test_shards_without_requests_have_a_state_and_a_summary(
    spark: SparkSession, tmp_path: Path
) -> None:
    nothing = spark.createDataFrame([], ddl(REQUEST))
    with ks.replay(nothing, SHARDS, checkpoints=tmp_path / "a") as first:
        assert [row.requests for row in first.summary.collect()] == [0] * SHARDS
    with ks.replay(
        nothing, SHARDS, tmp_path / "a", until_ms=START_MS, checkpoints=tmp_path / "b"
    ) as second:
        assert second.responses.count() == 0
    assert load_checkpoint(tmp_path / "a", 0) == b""
    assert load_checkpoint(tmp_path / "b", 0) != b""


def test_the_job_says_what_came_of_it(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events, out = tmp_path / "events.parquet", tmp_path / "out"
    requests(spark, 500, 50).write.parquet(str(events))
    arguments = ["--events", str(events), "--shards", "3", "--out", str(out)]
    assert run(["replay", *arguments]) == 0
    said = capsys.readouterr().out
    assert said.startswith("500 requests in ")
    assert "The 3 largest of 3 shards" in said
    records = ks.Replay.load(spark, out).records.count()
    assert records
    assert f"records  {records:,}\n" in said
    assert run(["replay", *arguments]) == 1
    assert "already exists" in capsys.readouterr().err


def _batch(**columns: list[Any]) -> pa.RecordBatch:
    wake = {"seq": -1, "ts": -(2**63), "group_id": "", "api_key": -1, "api_version": 0}
    size = len(next(iter(columns.values())))
    row = {
        "seq": 0,
        "ts": START_MS,
        "group_id": "a",
        "api_key": 16,
        "api_version": 2,
        "payload": b"",
    }
    rows = [
        wake,
        *(row | {name: values[at] for name, values in columns.items()} for at in range(size)),
    ]
    batch = pa.RecordBatch.from_pylist(rows, REQUEST)
    return batch.append_column("shard", pa.array([0] * batch.num_rows, pa.int32()))


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (
            {"group_id": ["a", None], "seq": [1, 2]},
            "events: column group_id is NULL in the row with",
        ),
        ({"api_key": [None]}, "events: column api_key is NULL in the row with seq 0, group_id 'a'"),
        ({"ts": [START_MS, START_MS - 1]}, "column ts"),
    ],
)
def test_what_a_request_lacks_is_named(columns: dict[str, list[Any]], said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        list(ReplayTask(1).run(0, [_batch(**columns)]))


def test_rows_of_another_shard_or_in_no_order_are_refused() -> None:
    with pytest.raises(ArgumentError, match="a row of shard 0 came to the task of shard 1"):
        list(ReplayTask(2).run(1, [_batch(seq=[1])]))
    with pytest.raises(ArgumentError, match="not sorted by ts"):
        list(ReplayTask(1).run(0, [_batch(seq=[1]).slice(1)]))


def test_a_state_is_of_so_many_shards_whole_and_written_once(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"state: .* holds no state"):
        check_state(tmp_path, 2)
    begin_state(tmp_path, 2)
    begin_state(tmp_path, 2)  # the first ended before it had anything
    with pytest.raises(ArgumentError, match=r"checkpoints: .* holds a state already"):
        begin_state(tmp_path, 3)
    store_checkpoint(tmp_path, 0, b"zero")
    with pytest.raises(ArgumentError, match=r"checkpoints: .* holds a state already"):
        begin_state(tmp_path, 2)
    store_checkpoint(tmp_path, 0, b"zero")  # a task that ran again
    with pytest.raises(ArgumentError, match="has another checkpoint of shard 0"):
        store_checkpoint(tmp_path, 0, b"other")
    with pytest.raises(ArgumentError, match=r"has no checkpoint of shard 1: .* did not end"):
        check_state(tmp_path, 2)
    store_checkpoint(tmp_path, 1, b"")
    check_state(tmp_path, 2)
    with pytest.raises(ArgumentError, match=r"shards: .* has the state of 2 shards, not 3"):
        check_state(tmp_path, 3)
    assert (load_checkpoint(tmp_path, 0), load_checkpoint(tmp_path, 1)) == (b"zero", b"")
    (tmp_path / "state.json").write_text("{}")
    with pytest.raises(ArgumentError, match="is not what a replay wrote"):
        check_state(tmp_path, 2)
