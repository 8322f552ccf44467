"""Rows written as a new directory of `__consumer_offsets`, whole or not at all: tasks write
segments beside it, the commit takes over those of the attempts that count, and renames. Commit and
abort remove staged files, also those of other attempts.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import BinaryType, StringType, StructType

from pykcoord.errors import ArgumentError
from pykcoord.transfer import Target
from pykcoord_spark.schemas import INTEGER, TIME, Kinds, require_kinds
from pykcoord_spark.source.options import Options
from pykcoord_spark.source.writing import COLUMNS, Segments, normalized
from pykcoord_spark.tasks import begin_task

__all__ = ["DirectoryWriter"]

_KINDS: dict[str, Kinds] = {
    "partition": INTEGER,
    "offset": INTEGER,
    "timestamp": TIME,
    "kind": (StringType,),
    "key": (BinaryType,),
    "value": (BinaryType,),
    "producer_id": INTEGER,
    "producer_epoch": INTEGER,
}
_OPTIONAL = {name for name, (_, needed) in COLUMNS.items() if not needed}


@dataclass
class Part(WriterCommitMessage):
    """The segments of a partition that one attempt wrote."""

    files: list[str]
    next_offset: int


@dataclass
class Written(WriterCommitMessage):
    """The segments that one attempt wrote, by partition."""

    parts: dict[int, Part]


class DirectoryWriter(DataSourceArrowWriter):
    def __init__(self, options: Options, schema: StructType, overwrite: bool) -> None:
        """Raises ArgumentError for columns that are missing or of another type, and where the
        directory is there and not empty."""
        if overwrite:
            raise ArgumentError("mode", "overwrite is not supported; name a new directory")
        require_kinds(schema, _KINDS, optional=_OPTIONAL)
        assert options.path is not None
        self._options = options
        self._path = path = options.path.absolute()
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise ArgumentError("option path", f"{path} is not empty; name a new directory")
        self._staging = path.with_name(f"{path.name}.staging-{uuid.uuid4().hex}")

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Raises ArgumentError for rows that cannot be written."""
        begin_task()
        attempt = self._staging / uuid.uuid4().hex
        count = self._options.offsets_topic_partitions
        written: dict[int, Segments] = {}
        for batch in iterator:
            if batch.num_rows == 0:
                continue
            rows = normalized(batch)
            for number in sorted(pc.unique(rows["partition"]).to_pylist()):
                if not 0 <= number < count:
                    raise ArgumentError(
                        "df", f"partition {number} is not one of {count}; set the option "
                        "offsets_topic_partitions",
                    )  # fmt: skip
                if number not in written:
                    folder = attempt / str(number)
                    written[number] = Segments(folder, number, self._options.segment_bytes)
                written[number].append(rows.filter(pc.equal(rows["partition"], number)))
        return Written(
            {
                number: Part([str(file) for file in of.files], of.next_offset)
                for number, of in written.items()
            }
        )

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Raises ArgumentError if two tasks wrote rows of one partition."""
        parts: dict[int, Part] = {}
        for message in messages:
            assert isinstance(message, Written)
            for number in message.parts.keys() & parts.keys():
                raise ArgumentError(
                    "df", f"rows of partition {number} came to several tasks; write "
                    "df.repartition('partition').sortWithinPartitions('partition', 'offset')",
                )  # fmt: skip
            parts.update(message.parts)
        options = self._options
        target = Target(
            self._path, options.offsets_topic_partitions, uuid.uuid4().bytes, options.segment_bytes
        )
        try:
            for number, part in sorted(parts.items()):
                target.adopt(number, [Path(file) for file in part.files], part.next_offset)
            target.seal(own=True)
            target.publish()
        except BaseException:
            target.discard()
            raise
        self._remove_staging()

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._remove_staging()

    def _remove_staging(self) -> None:
        shutil.rmtree(self._staging, ignore_errors=True)
