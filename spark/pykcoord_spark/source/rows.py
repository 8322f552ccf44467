"""From bytes to Arrow batches, in the tasks: the only place that calls the native decoder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from pykcoord.errors import LogError
from pykcoord.records import ReplayError, decode_log, decode_rows
from pykcoord_spark.source.options import Options
from pykcoord_spark.source.schema import MARKERS

__all__ = ["LAST_OFFSET", "rows_of_chunks", "rows_of_records"]

LAST_OFFSET = 2**63 - 1
# Batches of some thousand rows: fewer cost Spark more than their rows do.
_BATCH_BYTES = 1 << 20


def rows_of_chunks(
    where: object,
    partition: int,
    chunks: Iterable[bytes],
    options: Options,
    from_offset: int = 0,
    to_offset: int = LAST_OFFSET,
) -> Iterator[pa.RecordBatch]:
    """The records from `from_offset` to before `to_offset`, as far as they were asked for. `where`
    is what an error names. Raises LogError."""
    waiting: list[bytes] = []
    for chunk in chunks:
        waiting.append(chunk)
        if sum(map(len, waiting)) >= _BATCH_BYTES:
            yield _decoded(where, partition, waiting, options, from_offset, to_offset)
            waiting = []
    if waiting:
        yield _decoded(where, partition, waiting, options, from_offset, to_offset)


def rows_of_records(
    where: object, rows: pa.RecordBatch, options: Options | None = None
) -> pa.RecordBatch:
    """Records of which place, key and value are known, decoded, as far as they were asked for.
    Raises LogError."""
    options = options or Options()
    try:
        return _chosen(decode_rows(rows, options.decoded), options)
    except ReplayError as error:
        raise LogError(f"{where}: offset {error.offset}: {error.reason}") from None


def _decoded(
    where: object,
    partition: int,
    chunks: list[bytes],
    options: Options,
    from_offset: int,
    to_offset: int,
) -> pa.RecordBatch:
    try:
        batch = decode_log(partition, chunks, from_offset, to_offset, options.decoded)
    except ReplayError as error:
        raise LogError(
            f"{where}: offset {error.offset}: {error.reason}; `pykcoord log dump` shows the "
            "records before it"
        ) from None
    return _chosen(batch, options)


def _chosen(batch: pa.RecordBatch, options: Options) -> pa.RecordBatch:
    """The rows and columns that were asked for. Markers stay with any groups: they say whether the
    rows of a transaction count."""
    if options.groups is not None:
        of_groups = pc.is_in(batch["group_id"], pa.array(options.groups, pa.string()))
        markers = pc.is_in(batch["kind"], pa.array(MARKERS))
        batch = batch.filter(pc.or_(of_groups, markers))
    columns = options.columns
    if columns is None or columns == batch.schema:
        return batch
    return pa.RecordBatch.from_arrays([batch[name] for name in columns.names], schema=columns)
