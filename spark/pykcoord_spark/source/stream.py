"""Streams of `consumer_offsets`, from directories and live clusters. An offset of the stream is,
for each partition of the topic, the offset of the record that comes next; a partition that it does
not name is read from its start.

It never goes past the limit of a micro-batch. The limit counts offsets, of which there are at least
as many as rows.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from pykcoord.errors import ArgumentError
from pykcoord.log import PartitionEnds, read_slice
from pykcoord_spark.source.cluster import Slice, offsets_of, read_cluster
from pykcoord_spark.source.directory import grouped, places
from pykcoord_spark.source.options import Options
from pykcoord_spark.source.rows import rows_of_chunks
from pykcoord_spark.tasks import begin_task

__all__ = ["ClusterStream", "DirectoryStream", "limited"]

# Partition to the offset that comes next. Keys are strings: Spark keeps it as JSON.
_Offset = dict[str, int]
_Bounds = Mapping[int, tuple[int, int]]
# About the bytes of a commit in a log. A slice knows its offsets, but not their places in the file.
_RECORD_BYTES = 128


@dataclass
class Slices(InputPartition):
    """The slices that one task reads, one after the other."""

    slices: tuple[Slice, ...]


class _Stream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: Options) -> None:
        self._options = options
        self._target: _Bounds | None = None

    @abstractmethod
    def bounds(self) -> _Bounds:
        """First offset and end of each partition, now."""

    def initialOffset(self) -> _Offset:
        at = 1 if self._options.from_latest else 0
        return {str(number): bounds[at] for number, bounds in self.bounds().items()}

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self._options.max_records
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self.bounds()

    def latestOffset(self, start: _Offset, limit: ReadLimit) -> _Offset:
        bounds = self._target if self._target is not None else self.bounds()
        return limited(start, bounds, limit.max_rows if isinstance(limit, ReadMaxRows) else None)

    def partitions(self, start: _Offset, end: _Offset) -> Sequence[InputPartition]:
        return slices(start, end)


class DirectoryStream(_Stream):
    """A directory that a server or broker may write to."""

    def __init__(self, options: Options) -> None:
        """Raises ArgumentError for a segment file: a log goes on in the next one."""
        super().__init__(options)
        if options.path is not None and options.path.is_file():
            raise ArgumentError(
                "option path", f"{options.path} is a file; a stream needs a directory"
            )
        self._ends: PartitionEnds | None = None

    def bounds(self) -> _Bounds:
        if self._ends is None:
            self._ends = PartitionEnds(self._options.on_corruption)
        found = {place.number: Path(place.path) for place in places(self._options)}
        return {number: self._ends.of(directory) for number, directory in found.items()}

    def partitions(self, start: _Offset, end: _Offset) -> Sequence[InputPartition]:
        tasks = grouped(slices(start, end), _about_bytes, self._options.task_bytes)
        return [Slices(task) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Slices)
        begin_task()
        paths = {place.number: Path(place.path) for place in places(self._options)}
        for part in partition.slices:
            directory, start, end = paths[part.number], part.start, part.end
            chunks = read_slice(directory, start, end, self._options.on_corruption)
            yield from rows_of_chunks(directory, part.number, chunks, self._options, start, end)


class ClusterStream(_Stream):
    """A live cluster."""

    def bounds(self) -> _Bounds:
        return offsets_of(self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Slice)
        yield from read_cluster(self._options, partition)


def slices(start: _Offset, end: _Offset) -> list[Slice]:
    """The records between two offsets of a stream, partition by partition."""
    news = ((int(number), start.get(number, 0), upto) for number, upto in end.items())
    return [Slice(number, begin, upto) for number, begin, upto in news if upto > begin]


def _about_bytes(part: Slice) -> int:
    return (part.end - part.start) * _RECORD_BYTES


def limited(start: Mapping[str, int], bounds: _Bounds, most: int | None) -> dict[str, Any]:
    """Where the next micro-batch ends: at the ends of the partitions, or, where that is more than
    `most` offsets, each as far as its share of what is left. Never before `start`."""
    at = {n: max(start.get(str(n), 0), first) for n, (first, _) in bounds.items()}
    left = {n: max(0, end - at[n]) for n, (_, end) in bounds.items()}
    total = sum(left.values())
    if most is not None and total > most:
        shares = {n: of * most // total for n, of in left.items()}
        spare = most - sum(shares.values())
        for n in left:
            if spare and shares[n] < left[n]:
                shares[n] += 1
                spare -= 1
        left = shares
    return {**start, **{str(n): at[n] + left[n] for n in bounds}}
