"""`replay`: requests of the past through the coordinator, each shard in a task of its own.

Requests are routed to the shard of their group, sorted by time, and handed batch by batch to
`pykcoord.ArrowShard`: the engine of the server, with the rows' time for a clock. The same table
gives the same answers and records, however often a task runs; nothing here decides anything.
"""

from __future__ import annotations

import hashlib
import json
import resource
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Self, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pykcoord import ArrowShard, Config
from pykcoord.arrow import ENVELOPE, KIND_RECORD, KIND_RESPONSE, KIND_SUMMARY, REQUEST
from pykcoord.errors import ArgumentError
from pykcoord_spark.partition import SHARD, check_shards, exact, repartitioned, with_shard
from pykcoord_spark.schemas import ddl, refuse_null, require
from pykcoord_spark.state import begin_state, check_state, load_checkpoint, store_checkpoint
from pykcoord_spark.tasks import begin_task

__all__ = ["SUMMARY", "Replay", "ReplayTask", "replay", "shard_seed"]

_Batches: TypeAlias = Iterator[pa.RecordBatch]

# One row per shard: its work and its cost.
SUMMARY = (
    "shard INT, requests BIGINT, responses BIGINT, errors BIGINT, waiting BIGINT, records BIGINT, "
    "next_offset BIGINT, first_ts BIGINT, last_ts BIGINT, checkpoint_bytes BIGINT, "
    "engine_seconds DOUBLE, peak_memory_bytes BIGINT"
)
# A row that wakes a shard which has no requests, before all others of the shard.
_WAKE_TS = -(2**63)


class Replay:
    """The result of a replay, as tables that are computed once.

    `responses` and `records` are of `pykcoord.arrow.RESPONSE` and `RECORD`, `summary` has a row per
    shard, `envelope` is all of them. Without `out`, executors keep the rows on their disks from
    the first use to `close`.
    """

    def __init__(self, envelope: DataFrame, *, kept: bool = False) -> None:
        self.envelope = envelope
        self._kept = kept

    @classmethod
    def load(cls, spark: SparkSession, out: str | Path) -> Self:
        """The result that a replay wrote to `out`."""
        return cls(spark.read.schema(ddl(ENVELOPE)).parquet(str(out)))

    @property
    def responses(self) -> DataFrame:
        """The answers; `ts` is when they left. A request without an answer still waits, or its
        member sent it again while it waited."""
        rows = self.envelope.where(F.col("kind") == KIND_RESPONSE)
        names = "shard, seq, ts, group_id, member_id, api_key, error_code, generation"
        return rows.select(*names.split(", "), F.col("body").alias("payload"))

    @property
    def records(self) -> DataFrame:
        """The records of `__consumer_offsets`, those of a shard by `offset`."""
        rows = self.envelope.where(F.col("kind") == KIND_RECORD)
        body, cause = F.col("body").alias("value"), F.col("seq").alias("cause_seq")
        return rows.select(SHARD, "offset", "epoch", "ts", "key", body, cause)

    @property
    def summary(self) -> DataFrame:
        """A row per shard: counts, the first and the last `ts`, and its cost."""
        rows = self.envelope.where(F.col("kind") == KIND_SUMMARY)
        parsed = F.from_json(F.col("body").cast("string"), SUMMARY)
        return rows.select(parsed.alias("summary")).select("summary.*")

    def close(self) -> None:
        """Lets executors forget the rows. Not for a replay that was written to `out`."""
        if self._kept:
            self.envelope.unpersist()
            self._kept = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


def replay(
    events: DataFrame,
    shards: int,
    state: str | Path | None = None,
    *,
    config: Config | None = None,
    topics: Mapping[str, int] | None = None,
    seed: bytes = b"",
    until_ms: int | None = None,
    checkpoints: str | Path | None = None,
    out: str | Path | None = None,
) -> Replay:
    """Runs the requests of a table (`pykcoord.arrow.REQUEST`) through `shards` shards.

    Requests of a shard are taken in the order of `(ts, seq)`; `seq` must be unique. `state` is
    read, `checkpoints` is written and must hold no state yet: each is a folder that all executors
    see, or a URL of an object store, with the state of each shard. `config` and `topics` are as for
    `pykcoord.ArrowShard`, and should be those of the replay that wrote `state`. `seed` goes into
    new member ids. `until_ms` lets time pass after the last request, so that what is due by then
    happens. With `out`, the job runs now and writes one Parquet folder there, which must not exist;
    without, it runs when a table of the result is used first.

    Raises ArgumentError for columns that are missing or of another type and for a state of
    another number of shards; the job fails with one that names column and row for NULLs, an
    order that runs back behind `state`, and requests that cannot be read.
    """
    check_shards(shards)
    requests = require(events, REQUEST, "events")
    if state is not None:
        check_state(state, shards)
    if checkpoints is not None:
        begin_state(checkpoints, shards)
    routed = with_shard(requests, shards).unionByName(_wake(events.sparkSession, shards))
    ordered = repartitioned(routed, shards).sortWithinPartitions("ts", "seq")
    task = ReplayTask(
        shards, config, dict(topics) if topics is not None else None, seed, until_ms,
        str(state) if state is not None else None,
        str(checkpoints) if checkpoints is not None else None,
    )  # fmt: skip
    envelope = ordered.mapInArrow(_in_task(task), ddl(ENVELOPE))
    if out is None:
        return Replay(envelope.persist(StorageLevel.DISK_ONLY), kept=True)
    envelope.write.mode("error").parquet(str(out))
    return Replay.load(events.sparkSession, out)


def shard_seed(seed: bytes, shard: int) -> bytes:
    """The 32 bytes that a shard of a replay is seeded with."""
    return hashlib.sha256(b"pykcoord replay\0" + shard.to_bytes(4, "big") + seed).digest()


def _wake(spark: SparkSession, shards: int) -> DataFrame:
    """A row per shard: a shard without any row would not run, and would leave no state."""
    there = {
        "seq": F.lit(-1).cast("bigint"), "ts": F.lit(_WAKE_TS), "group_id": F.lit(""),
        "api_key": F.lit(-1).cast("smallint"), "api_version": F.lit(0).cast("smallint"),
        SHARD: F.col("id").cast("int"),
    }  # fmt: skip
    ids = spark.range(0, shards, 1, 1)
    kinds = {each.name: ddl(pa.schema([each])).split()[1] for each in REQUEST}
    columns = [
        there.get(name, F.lit(None).cast(kinds.get(name, "int")))
        for name in (*REQUEST.names, SHARD)
    ]
    names = (*REQUEST.names, SHARD)
    return ids.select(*(column.alias(name) for column, name in zip(columns, names, strict=True)))


def _in_task(task: ReplayTask) -> Callable[[_Batches], _Batches]:
    def run(batches: _Batches) -> _Batches:
        from pyspark import TaskContext

        begin_task()
        context = TaskContext.get()
        assert context is not None
        return task.run(context.partitionId(), batches)

    return run


@dataclass(frozen=True, slots=True)
class ReplayTask:
    """The work of one task for one shard; made on the driver, sent to all tasks."""

    shards: int
    config: Config | None = None
    topics: dict[str, int] | None = None
    seed: bytes = b""
    until_ms: int | None = None
    state: str | None = None
    checkpoints: str | None = None

    def run(self, shard: int, batches: Iterable[pa.RecordBatch]) -> _Batches:
        """Envelopes for the requests of a shard, which come sorted, and its summary."""
        engine = ArrowShard(
            self.config, topics=self.topics, seed=shard_seed(self.seed, shard),
            shard=shard, shards=self.shards,
        )  # fmt: skip
        counts = _Counts()
        has_state = False
        if self.state is not None and (checkpoint := load_checkpoint(self.state, shard)):
            engine.resume(checkpoint)
            has_state = True
        for batch in _without_wake(exact(batches, shard)):
            yield counts.add(batch, partial(engine.process, batch))
            has_state = True
        if self.until_ms is not None:
            yield counts.add(None, partial(engine.advance, self.until_ms))
            has_state = True
        checkpoint = b""
        if self.checkpoints is not None:
            checkpoint = engine.checkpoint() if has_state else b""
            store_checkpoint(self.checkpoints, shard, checkpoint)
        yield counts.summary(shard, engine, len(checkpoint))


@dataclass(slots=True)
class _Counts:
    """The counts of a shard so far."""

    sums: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("requests", "responses", "errors", "records"), 0)
    )
    first_ts: int | None = None
    last_ts: int | None = None
    seconds: float = 0.0

    def add(
        self, batch: pa.RecordBatch | None, process: Callable[[], pa.RecordBatch]
    ) -> pa.RecordBatch:
        begin = time.perf_counter()
        envelope = process()
        self.seconds += time.perf_counter() - begin
        codes = envelope.column("error_code")
        records = codes.null_count
        self.sums["records"] += records
        self.sums["responses"] += envelope.num_rows - records
        self.sums["errors"] += pc.sum(pc.not_equal(codes, 0)).as_py() or 0
        if batch is not None:
            self.sums["requests"] += batch.num_rows
            times = batch.column("ts")
            self.first_ts = times[0].as_py() if self.first_ts is None else self.first_ts
            self.last_ts = times[-1].as_py()
        return envelope

    def summary(self, shard: int, engine: ArrowShard, checkpoint_bytes: int) -> pa.RecordBatch:
        content = {
            "shard": shard,
            **self.sums,
            "waiting": engine.waiting,
            "next_offset": engine.next_offset,
            "first_ts": self.first_ts,
            "last_ts": self.last_ts,
            "checkpoint_bytes": checkpoint_bytes,
            "engine_seconds": round(self.seconds, 6),
            "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        }
        row = dict.fromkeys(ENVELOPE.names)
        row |= {"kind": KIND_SUMMARY, SHARD: shard, "ts": self.last_ts or 0}
        row["body"] = json.dumps(content).encode()
        return pa.RecordBatch.from_pylist([row], schema=ENVELOPE)


def _without_wake(batches: Iterable[pa.RecordBatch]) -> _Batches:
    """The requests, checked for NULLs: the first row of all is the one of `_wake`."""
    woken = False
    for batch in batches:
        refuse_null(batch, REQUEST, "events")
        if not woken and batch.num_rows:
            woken = True
            if batch.column("ts")[0].as_py() != _WAKE_TS:
                raise ArgumentError("events", "the rows of a shard are not sorted by ts")
            batch = batch.slice(1)
        if batch.num_rows:
            yield batch
