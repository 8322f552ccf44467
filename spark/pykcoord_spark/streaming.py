"""Requests as a stream, answers as a stream: shards behind Structured Streaming, exactly once.

    answers = coordinate(spark.readStream..., shards=50, log="/shared/kcoord")
    answers.writeStream.format("parquet").option("checkpointLocation", ...)...

The state is not Spark's: it lies in the shard log, which also knows what every micro-batch was
answered. A task that is done again, by any worker, gives what it gave before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame

from pykcoord import Config
from pykcoord.cluster import is_cluster
from pykcoord.errors import ArgumentError
from pykcoord.log.shared import open_logs, open_store
from pykcoord_spark.partition import check_shards, exact, route
from pykcoord_spark.schemas import REQUEST, RESPONSE, ddl, refuse_null, require
from pykcoord_spark.worker import Settings

__all__ = ["coordinate"]


def coordinate(
    stream: DataFrame,
    shards: int,
    log: str | Path,
    *,
    config: Config | None = None,
    topics: Mapping[str, int] | None = None,
    uses_clock: bool = False,
    snapshot_every: int = 64,
) -> DataFrame:
    """The answers (the columns of RESPONSE) to a stream of requests (those of REQUEST).

    `log`: a folder or URL that all workers see; made if there is none. It belongs to `shards` and
    to streams, and a query that calls this twice needs two. `config` and `topics` (name to
    partitions; None: all are there) must stay as they are while the log has entries behind its last
    snapshot. With `uses_clock` time goes on with the workers' clocks in each micro-batch, so that
    a request that waits is answered also if no other comes; without, it is that of the rows.
    `snapshot_every`: after so many entries of a shard.

    A request that comes late (its `ts` is before another's of an earlier micro-batch) is served at
    the time of that. Raises ArgumentError for columns and numbers that cannot be, and for a log of
    another number of shards; tasks raise it for NULLs.
    """
    requests = require(stream, REQUEST, "stream")
    if not stream.isStreaming:
        raise ArgumentError("stream", "is no stream: replay() is for tables")
    if snapshot_every < 1:
        raise ArgumentError("snapshot_every", f"{snapshot_every} is not at least 1")
    check_shards(shards)
    if is_cluster(open_store(log)):
        raise ArgumentError("log", f"{log} is that of hosts; a log serves a stream or hosts")
    open_logs(log, shards)
    location = str(log) if "://" in str(log) else str(Path(log).absolute())
    named = None if topics is None else tuple(sorted(topics.items()))
    settings = Settings(location, shards, config, named, uses_clock, snapshot_every)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        from pykcoord_spark import worker

        context = TaskContext.get()
        assert context is not None, "a task runs on a worker"
        yield from worker.run(settings, _sound(exact(batches, context.partitionId())))

    return route(requests, shards).mapInArrow(run, ddl(RESPONSE))


def _sound(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        refuse_null(batch, REQUEST, "stream")
        yield batch
