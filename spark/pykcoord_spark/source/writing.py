"""Rows of one partition framed as segments, in a task. Offsets are those of the rows if they have
any, else from 0 on. Never writes a batch that a broker would not take: at most half a MB, unless
one record is larger.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pykcoord.errors import ArgumentError
from pykcoord.log import reframe, segment_name
from pykcoord.records import encode_records
from pykcoord_spark.source.schema import MARKERS

__all__ = ["COLUMNS", "Segments", "normalized"]

# The columns of a row that are written, and whether each must be there.
COLUMNS: dict[str, tuple[pa.DataType, bool]] = {
    "partition": (pa.int32(), True),
    "offset": (pa.int64(), False),
    "timestamp": (pa.int64(), True),
    "kind": (pa.string(), False),
    "key": (pa.binary(), True),
    "value": (pa.binary(), True),
    "producer_id": (pa.int64(), False),
    "producer_epoch": (pa.int16(), False),
}
_CONTROL_KINDS = (*MARKERS, "control")
_TRANSACTIONAL, _CONTROL = 1 << 4, 1 << 5
_LEADER_EPOCH = 0
_BATCH_ROWS, _BATCH_BYTES = 1000, 512 << 10
_RECORD_OVERHEAD = 30  # bytes of a record besides key and value, at most
# Offsets in batches and in Kafka's indexes are 32 bits above the base of the batch or segment.
_MAX_RELATIVE_OFFSET = 2**31 - 1


def normalized(batch: pa.RecordBatch) -> pa.Table:
    """The columns of `COLUMNS`; timestamps in milliseconds. Raises ArgumentError for nulls, and for
    numbers that Kafka has no room for."""
    columns = {}
    for name, (of, _) in COLUMNS.items():
        if name not in batch.schema.names:
            columns[name] = pa.nulls(batch.num_rows, of)
            continue
        column = batch[name]
        if pa.types.is_timestamp(column.type):
            column = pc.cast(column, pa.timestamp("ms", column.type.tz), safe=False)
        try:
            columns[name] = column.cast(of)
        except pa.ArrowInvalid as error:
            raise ArgumentError("df", f"column {name}: {error}") from None
        if name in ("partition", "timestamp", "key") and column.null_count:
            raise ArgumentError("df", f"column {name} has nulls")
    return pa.table(columns)


class Segments:
    """The segments of a partition, below `folder`."""

    def __init__(self, folder: Path, partition: int, segment_bytes: int) -> None:
        folder.mkdir(parents=True)
        self.files: list[Path] = []
        self.next_offset = 0
        self.records = 0
        self._folder = folder
        self._partition = partition
        self._segment_bytes = segment_bytes
        self._base_offset = self._size = 0

    def append(self, rows: pa.Table) -> None:
        """Writes the rows behind those before. Raises ArgumentError for offsets out of order."""
        count = rows.num_rows
        offsets = self._offsets(rows["offset"])
        encodable = pa.RecordBatch.from_arrays(
            [
                pa.array(offsets, pa.int64()),
                *(rows[name].combine_chunks() for name in ("timestamp", "key", "value")),
            ],
            names=["offset", "timestamp", "key", "value"],
        )
        timestamps = rows["timestamp"].to_numpy()
        producers = _or(rows["producer_id"], -1)
        epochs = _or(rows["producer_epoch"], -1)
        controls = pc.is_in(rows["kind"], pa.array(_CONTROL_KINDS)).to_numpy()
        out = bytearray()
        for start, end in _batches(rows, offsets, producers, epochs, controls):
            header = struct.pack(
                ">qiibIhiqqqhii", offsets[start], 0, _LEADER_EPOCH, 2, 0,
                _attributes(producers[start], controls[start]), offsets[end - 1] - offsets[start],
                timestamps[start], timestamps[start:end].max(), producers[start], epochs[start],
                -1 if controls[start] else 0, end - start,
            )  # fmt: skip
            data = reframe(header, encode_records(encodable, start, end - start))
            if self._is_full(len(data), int(offsets[end - 1])):
                self._write(out)
                out.clear()
                self._roll(int(offsets[start]))
            out += data
            self._size += len(data)
        self._write(out)
        self.next_offset = int(offsets[-1]) + 1
        self.records += count

    def _offsets(self, given: pa.ChunkedArray) -> np.ndarray:
        if given.null_count == len(given):
            return np.arange(self.next_offset, self.next_offset + len(given))
        if given.null_count:
            raise ArgumentError("df", "column offset has nulls in some rows only")
        offsets: np.ndarray = given.to_numpy()
        steps = np.diff(offsets, prepend=self.next_offset - 1)
        if (steps <= 0).any():
            at = int(np.argmax(steps <= 0))
            raise ArgumentError(
                "df",
                f"partition {self._partition}: offset {offsets[at]} comes when "
                f"{offsets[at] - steps[at] + 1} or more is due; write "
                "df.repartition('partition').sortWithinPartitions('partition', 'offset')",
            )
        return offsets

    def _is_full(self, more_bytes: int, last_offset: int) -> bool:
        too_large = self._size > 0 and self._size + more_bytes > self._segment_bytes
        too_far = last_offset - self._base_offset > _MAX_RELATIVE_OFFSET
        return not self.files or too_large or too_far

    def _roll(self, base_offset: int) -> None:
        self._base_offset, self._size = base_offset, 0
        self.files.append(self._folder / segment_name(base_offset))

    def _write(self, data: bytearray) -> None:
        if data:
            with open(self.files[-1], "ab") as file:
                file.write(data)


def _attributes(producer_id: int, control: bool) -> int:
    return (_TRANSACTIONAL if producer_id >= 0 else 0) | (_CONTROL if control else 0)


def _batches(
    rows: pa.Table,
    offsets: np.ndarray,
    producers: np.ndarray,
    epochs: np.ndarray,
    controls: np.ndarray,
) -> Iterator[tuple[int, int]]:
    """First row and end of each batch: rows of one producer; a marker is alone."""
    sizes = sum(_or(pc.binary_length(rows[name]), 0) for name in ("key", "value"))
    ends = np.cumsum(sizes + _RECORD_OVERHEAD)
    changed = (np.diff(producers) != 0) | (np.diff(epochs) != 0) | controls[1:] | controls[:-1]
    cuts = [0, *(np.flatnonzero(changed) + 1).tolist(), rows.num_rows]
    for first, end in pairwise(cuts):
        start = first
        while start < end:
            before = ends[start - 1] if start else 0
            fitting = int(np.searchsorted(ends, before + _BATCH_BYTES, side="right"))
            last_offset = int(offsets[start]) + _MAX_RELATIVE_OFFSET
            near = int(np.searchsorted(offsets, last_offset, side="right"))
            stop = min(end, max(start + 1, fitting), start + _BATCH_ROWS, near)
            yield start, stop
            start = stop


def _or(column: pa.ChunkedArray, instead: int) -> np.ndarray:
    filled: np.ndarray = pc.fill_null(column, instead).to_numpy()
    return filled
