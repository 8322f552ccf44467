"""Batch reads of a directory: one task for each partition of the topic, all of it checked before
the first row. Never changes a file; a server may write there meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from pykcoord.errors import ArgumentError, LogError
from pykcoord.log import LogReader
from pykcoord.log.directory import partition_directories
from pykcoord.log.reader import segment_files
from pykcoord_spark.source.options import Options
from pykcoord_spark.source.rows import chosen, rows_of_chunks
from pykcoord_spark.tasks import begin_task

__all__ = ["DirectoryReader", "Place", "places"]

_log = logging.getLogger(__name__)


@dataclass
class Place(InputPartition):
    """A partition of the topic in a directory: its folder, or one segment file of it."""

    number: int
    path: str


class DirectoryReader(DataSourceReader):
    def __init__(self, options: Options) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """Raises LogError if there is no log, ArgumentError for a partition that is not there."""
        return places(self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Raises CorruptLogError, as a start of the server on these files would, and LogError."""
        if not isinstance(partition, Place):  # Spark calls so if there are none
            return
        begin_task()
        reader = LogReader.open(partition.path, on_corruption=self._options.on_corruption)
        for cut in reader.cuts:
            _log.warning("left out: %s", cut)
        for number in reader.partitions:
            chunks = reader.read(number)
            for batch in rows_of_chunks(partition.path, partition.number, chunks):
                yield chosen(batch, self._options.groups)


def places(options: Options) -> list[Place]:
    """The partitions that the options choose. Raises LogError and ArgumentError."""
    path = options.path
    assert path is not None
    if not path.exists():
        raise LogError(f"{path}: no such directory; a path is looked up where Spark runs")
    found = partition_directories(path) if path.is_dir() else {}
    if not found:
        found = {number: path for number, files in segment_files(path).items() if files}
    missing = sorted((options.partitions or frozenset()) - found.keys())
    if missing and options.partitions is not None:
        raise ArgumentError("option partitions", f"{path} has no partition {missing[0]}")
    return [Place(number, str(of)) for number, of in sorted(found.items()) if options.wants(number)]
