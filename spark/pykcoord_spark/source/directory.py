"""Batch reads of a directory: tasks of whole partitions of the topic, each checked before its first
row. Never changes a file; a server may write there meanwhile.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from pykcoord.errors import ArgumentError, LogError
from pykcoord.log import LogReader, partition_directories, segment_files
from pykcoord_spark.source.options import Options
from pykcoord_spark.source.rows import rows_of_chunks
from pykcoord_spark.tasks import begin_task

__all__ = ["DirectoryReader", "Place", "Places", "grouped", "places"]

_log = logging.getLogger(__name__)
_Part = TypeVar("_Part")


@dataclass
class Place(InputPartition):
    """A partition of the topic in a directory: its folder, or one segment file of it."""

    number: int
    path: str


@dataclass
class Places(InputPartition):
    """The slices that one task reads, one after the other."""

    places: tuple[Place, ...]


class DirectoryReader(DataSourceReader):
    def __init__(self, options: Options) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """Raises LogError if there is no log, ArgumentError for a partition that is not there."""
        tasks = grouped(places(self._options), _size, self._options.task_bytes)
        return [Places(task) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Raises CorruptLogError, as a start of the server on these files would, and LogError."""
        begin_task()
        if isinstance(partition, Places):  # Spark calls without any if there are none
            for place in partition.places:
                yield from self._read(place)

    def _read(self, place: Place) -> Iterator[pa.RecordBatch]:
        reader = LogReader.open(place.path, on_corruption=self._options.on_corruption)
        for cut in reader.cuts:
            _log.warning("left out: %s", cut.unread)
        for number in reader.partitions:
            chunks = reader.read(number)
            yield from rows_of_chunks(place.path, place.number, chunks, self._options)


def grouped(
    found: Iterable[_Part], bytes_of: Callable[[_Part], int], task_bytes: int
) -> list[tuple[_Part, ...]]:
    """The same, in order: small neighbours go to one task, since each costs Spark some 30 ms."""
    tasks: list[list[_Part]] = []
    room = 0
    for part in found:
        size = bytes_of(part)
        if not tasks or size > room:
            tasks.append([])
            room = task_bytes
        tasks[-1].append(part)
        room -= size
    return [tuple(task) for task in tasks]


def _size(place: Place) -> int:
    """A file that is gone meanwhile, by a compaction or with its folder, is the task's error."""
    size = 0
    with contextlib.suppress(FileNotFoundError):
        for file in chain.from_iterable(segment_files(Path(place.path)).values()):
            size += file.path.stat().st_size
    return size


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
