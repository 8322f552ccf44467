"""The work of a Python worker of Spark in a streaming query: one micro-batch of one shard.

Every request is answered once, also if a process dies at any moment. The shard's log is the
authority: an entry holds the requests of a micro-batch, the time, the records and the answers, put
there at once. A worker that follows another, or its own earlier self, makes the same state by
serving the same requests. A micro-batch that is in the log already is answered from its entry.
Shards stay loaded in this module between the tasks of a process, and other workers of the executor
send their rows here. This only saves time: the result does not depend on it. Only `run` uses Spark.
"""

from __future__ import annotations

import os
import struct
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from pykcoord import ArrowShard, Config
from pykcoord.arrow import KIND_RESPONSE, REQUEST, RESPONSE
from pykcoord.errors import ArgumentError, KcoordError
from pykcoord.log.shared import Entry, FencedError, ShardLog, open_logs, other_kind
from pykcoord_spark.neighbours import Neighbours, shard_name
from pykcoord_spark.tables import packed, unpacked
from pykcoord_spark.tasks import begin_task

__all__ = ["DivergedError", "Settings", "run", "step"]

# How often a step begins anew because another worker wrote to the shard's log meanwhile.
_ATTEMPTS = 20
# Rows of one batch of answers, as Spark's own batches have them.
_ANSWERS_A_BATCH = 10_000
# A shard without a request for this long belongs to another worker by now, or to a query that has
# ended.
_IDLE_SECONDS = 300.0
_STORED = struct.Struct(">qqq")  # time, bytes of requests, bytes of answers; -1: no time was given
_NO_TIME = -1


class DivergedError(KcoordError):
    """The requests of an entry do not give its records again: settings or topics are different."""

    def __init__(self, shard: int, index: int) -> None:
        super().__init__(
            f"shard {shard}, entry {index}: its requests give other records now; the query was "
            "restarted with other settings or topics. Restart it with those of before; to change "
            "them, let one micro-batch go through with snapshot_every=1 first"
        )
        self.shard = shard
        self.index = index


@dataclass(frozen=True)
class Settings:
    """Settings of a query, the same in all of its tasks. `topics`: names with partitions; None: all
    are there.

    `uses_clock`: time goes on with this machine's clock at the end of each micro-batch, and not
    with the rows alone. A snapshot is made after every `snapshot_every` entries of a shard.
    """

    log: str
    shards: int
    config: Config | None = None
    topics: tuple[tuple[str, int], ...] | None = None
    uses_clock: bool = False
    snapshot_every: int = 64


def run(settings: Settings, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The task of a shard: routed requests in, answers out. The query and its batch name it."""
    from pyspark import TaskContext

    begin_task()
    context = TaskContext.get()
    assert context is not None, "a task runs on a worker"
    query = context.getLocalProperty("sql.streaming.queryId")
    batch = context.getLocalProperty("streaming.sql.batchId")
    if query is None or batch is None:
        raise ArgumentError("stream", "is no stream: coordinate() needs spark.readStream")
    columns = (each.select(REQUEST.names) for each in batches)
    rows = pa.Table.from_batches(columns, pa.schema([_nullable(field) for field in REQUEST]))
    answers = step(settings, context.partitionId(), query, int(batch), rows)
    yield from answers.to_batches(max_chunksize=_ANSWERS_A_BATCH)


def step(settings: Settings, shard: int, source: str, sequence: int, rows: pa.Table) -> pa.Table:
    """The answers (RESPONSE) to the requests of one micro-batch, `sequence` of the query `source`.

    They are in the log when this returns; asked again, it gives the same. Raises ArgumentError for
    rows that cannot be right and for a batch before the last (nothing is written), DivergedError,
    CorruptEntryError, and what the store raises.
    """
    name = shard_name(settings, shard)
    told = _neighbours.ask(name, source, sequence, rows)
    if told is not None:
        _leaders.pop(name, None)  # one is enough
        return told
    with _lock(name):
        for _ in range(_ATTEMPTS):
            # Kept only after a success: after an error its state is unknown.
            leader = _leaders.pop(name, None)
            try:
                leader = leader or _Leader(settings, shard)
                answers = leader.step(source, sequence, rows)
            except FencedError as error:
                fenced = error
                continue
            _keep(name, leader)
            _neighbours.hold(name)
            return answers
        raise fenced


def _step_for_neighbour(name: str, source: str, sequence: int, rows: pa.Table) -> pa.Table | None:
    """`step` where the shard is loaded; None where it is not."""
    with _lock(name):
        leader = _leaders.pop(name, None)
        if leader is None:
            return None
        answers = leader.step(source, sequence, rows)
        _keep(name, leader)
        return answers


def _keep(name: str, leader: _Leader) -> None:
    """Until the next micro-batch, and no longer than `_IDLE_SECONDS` if none comes here."""
    now = time.monotonic()
    leader.used_at, _leaders[name] = now, leader
    for other, kept in list(_leaders.items()):
        if now - kept.used_at > _IDLE_SECONDS:
            _leaders.pop(other, None)


class _Leader:
    """A shard, its log, and how far both agree."""

    used_at = 0.0

    def __init__(self, settings: Settings, shard: int) -> None:
        self._settings = settings
        self._log = _log(settings, shard)
        snapshot = self._log.load()
        self._is_new = snapshot is None
        self._entries = 0  # since the last snapshot
        topics = None if settings.topics is None else dict(settings.topics)
        self._shard = ArrowShard(
            settings.config, topics=topics, shard=shard, shards=settings.shards
        )
        if snapshot is not None:
            if not snapshot.is_checkpoint:
                raise other_kind(shard, "its snapshot is of hosts")
            self._shard.resume(snapshot.content)
        self._shard.take_batches(self._log.epoch)

    def step(self, source: str, sequence: int, rows: pa.Table) -> pa.Table:
        """See the function of that name. Raises FencedError if another worker writes meanwhile."""
        self._follow()
        repeated = self._log.repeated(source, sequence)
        if repeated is not None:
            _, served, answers = _unpack(repeated)
            if not served["seq"].sort().equals(rows["seq"].sort()):
                raise ArgumentError(
                    "stream",
                    f"shard {self._log.shard}: micro-batch {sequence} of this query has served "
                    "other requests: their `seq` must be the same when they are read again, and "
                    "each coordinate() of a query needs a log of its own",
                )
            return answers
        now_ms = time.time_ns() // 1_000_000 if self._settings.uses_clock else _NO_TIME
        if rows.num_rows == 0 and (self._is_new or now_ms == _NO_TIME):
            return RESPONSE.empty_table()
        if not self._log.leads:
            self._claim(rows, now_ms)
        rows = rows.sort_by([("ts", "ascending"), ("seq", "ascending")])
        first_offset = self._shard.next_offset
        answers = self._serve(rows, now_ms)
        batches = self._shard.take_batches(self._log.epoch)
        if rows.num_rows or answers.num_rows or batches:
            self._log.append(
                batches,
                self._shard.next_offset - first_offset,
                now_ms=self._shard.now_ms or 0,
                source=source,
                sequence=sequence,
                responses=_pack(now_ms, rows, answers),
            )
            self._snapshot_if_due()
        return answers

    def _follow(self) -> None:
        """Applies the entries that other workers have written meanwhile."""
        for entry in self._log.follow():
            self._log.leads = False
            if entry.begins_epoch:
                if self._is_new and entry.responses:
                    self._log.require_unpruned()
                    self._shard.resume(entry.responses)
                    self._is_new = False
                self._shard.take_batches(entry.epoch)
                continue
            if self._is_new or not entry.responses:
                index = self._log.next_index - 1
                raise other_kind(self._log.shard, f"entry {index} was not written by a stream")
            now_ms, rows, _ = _unpack(entry)
            self._serve(rows, now_ms)
            if self._shard.take_batches(entry.epoch) != entry.batches:
                raise DivergedError(self._log.shard, self._log.next_index - 1)
            self._entries += 1

    def _claim(self, rows: pa.Table, now_ms: int) -> None:
        owner = f"stream on {os.uname().nodename}, process {os.getpid()}"
        state = self._begun(rows, now_ms) if self._is_new else b""
        if not self._log.claim(owner, max(now_ms, 0), state):
            raise FencedError(self._log.shard, self._log.next_index)
        self._is_new = False
        self._shard.take_batches(self._log.epoch)

    def _begun(self, rows: pa.Table, now_ms: int) -> bytes:
        """The first entry of a new shard, before its first request. It holds the seed of member
        ids: the first worker that draws one decides it for all."""
        first_ms = pc.min(rows["ts"]).as_py() if rows.num_rows else now_ms
        self._shard.advance(max(first_ms, 0))
        return self._shard.checkpoint()

    def _serve(self, rows: pa.Table, now_ms: int) -> pa.Table:
        """Answers to sorted rows. A row with an earlier time than the shard's is served now."""
        told = []
        for batch in rows.combine_chunks().to_batches():
            told.append(self._shard.process(_not_before(batch, self._shard.now_ms)))
        if now_ms != _NO_TIME:
            told.append(self._shard.advance(max(now_ms, self._shard.now_ms or 0)))
        return _answers(told)

    def _snapshot_if_due(self) -> None:
        self._entries += 1
        if self._entries >= self._settings.snapshot_every:
            self._log.snapshot(self._shard.checkpoint())
            self._entries = 0


# Shards that this process has loaded, by name. The lock is held by the task that works on one: its
# own, or a neighbour's.
_leaders: dict[str, _Leader] = {}
_locks: dict[str, threading.Lock] = {}
_neighbours = Neighbours(_step_for_neighbour)


def _lock(name: str) -> threading.Lock:
    return _locks.setdefault(name, threading.Lock())


def _log(settings: Settings, shard: int) -> ShardLog:
    return open_logs(settings.log, settings.shards)[shard]


def _nullable(field: pa.Field) -> pa.Field:
    return field.with_nullable(True)


def _not_before(batch: pa.RecordBatch, now_ms: int | None) -> pa.RecordBatch:
    if now_ms is None or batch.num_rows == 0 or batch.column("ts")[0].as_py() >= now_ms:
        return batch
    at = batch.schema.get_field_index("ts")
    ts = pc.max_element_wise(batch.column(at), pa.scalar(now_ms, pa.int64()))
    return batch.set_column(at, batch.schema.field(at), ts)


def _answers(told: list[pa.RecordBatch]) -> pa.Table:
    if not told:
        return RESPONSE.empty_table()
    table = pa.Table.from_batches(told)
    table = table.filter(pc.equal(table["kind"], KIND_RESPONSE))
    columns = [table["body" if name == "payload" else name] for name in RESPONSE.names]
    return pa.table(columns, schema=RESPONSE)


def _pack(now_ms: int, rows: pa.Table, answers: pa.Table) -> bytes:
    parts = [packed(table, "lz4") for table in (rows, answers)]
    return _STORED.pack(now_ms, *map(len, parts)) + b"".join(parts)


def _unpack(entry: Entry) -> tuple[int, pa.Table, pa.Table]:
    now_ms, rows_bytes, _ = _STORED.unpack_from(entry.responses)
    parts = pa.py_buffer(entry.responses)
    at = _STORED.size
    return now_ms, unpacked(parts.slice(at, rows_bytes)), unpacked(parts.slice(at + rows_bytes))
