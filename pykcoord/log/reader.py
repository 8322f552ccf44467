"""A log that is only looked at: a data directory, one partition's folder, or one segment file.

pykcoord's own or Kafka's, stopped or running. Must never change, create or lock anything: damage
is cut in memory, and what an interrupted compaction left is sorted out there too. One that goes on
meanwhile takes files away; then it is looked again, and read on where it was.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from pykcoord.errors import CorruptLogError, LogError
from pykcoord.log import checkpoint, recovery
from pykcoord.log._record_batch import header, scan
from pykcoord.log.folders import TOPIC, partition_directories
from pykcoord.log.partition import read_segments
from pykcoord.log.protocol import Cut, OnCorruption
from pykcoord.log.recovery import Found
from pykcoord.log.segment import SegmentFile, plan, refuse_packed_file

__all__ = ["LogReader", "batches_from", "segment_files"]

_PARTITION_NAME = re.compile(re.escape(TOPIC) + r"-(\d+)")
_ATTEMPTS = 20
_MAGIC_AT, _NEWEST_MAGIC = 16, 2
_SEGMENT_NAME = re.compile(r"(\d{20})\.log")


class LogReader:
    """A log opened for reading. `partitions` are the numbers of those that are there, `shards` how
    many the topic has as far as the files show, `cuts` what was left out as damaged."""

    def __init__(
        self, found: dict[int, Found], shards: int, cuts: list[Cut], is_one_file: bool
    ) -> None:
        self.partitions = list(found)
        self.shards = shards
        self.cuts = cuts
        self._found = found
        self._is_one_file = is_one_file

    @classmethod
    def open(cls, path: Path | str, *, on_corruption: OnCorruption = "refuse") -> Self:
        """Checks all of it. Raises CorruptLogError as a start would, LogError if no log is there,
        OSError."""
        path = Path(path)
        if path.is_dir():
            directories = _directories(path)
            found = {number: _examine(directory) for number, directory in directories.items()}
        else:
            found = {_number(path.absolute().parent): recovery.examine_file(_segment(path))}
        known = checkpoint.read_properties(path) if path.is_dir() else None
        shards = known.partitions if known else max(found, default=0) + 1
        cuts = [recovery.cut_in_memory(one, on_corruption) for one in found.values()]
        return cls(found, shards, [cut for cut in cuts if cut is not None], not path.is_dir())

    def read(self, shard: int) -> Iterator[bytes]:
        """Chunks (up to a MB) of whole, checked, uncompressed batches; none if it is not there."""
        if shard not in self._found:
            return
        directory = self._found[shard].directory
        segments = _segments(self._found[shard])
        files: list[tuple[str, int, int]] = []
        next_offset = 0
        while True:
            try:
                for chunk in read_segments(segments):
                    rest = batches_from(chunk, next_offset)
                    if rest:
                        next_offset = scan(rest, 0, next_offset).next_offset
                        yield rest
                return
            except (FileNotFoundError, CorruptLogError):
                now = _files(directory)
                if self._is_one_file or now == files:
                    raise
                files = now
                segments = _segments(_examine(directory))

    def directory(self, shard: int) -> Path:
        """The folder of a partition that is there."""
        return self._found[shard].directory

    def next_offset(self, shard: int) -> int:
        """The offset behind the last sound batch; 0 for a partition that is not there."""
        return self._found[shard].next_offset if shard in self._found else 0


def segment_files(path: Path) -> dict[int, list[SegmentFile]]:
    """The segment files at `path`, by partition. Raises LogError if there is no log."""
    if not path.is_dir():
        return {_number(path.absolute().parent): [_segment(path)]}
    return {number: plan(directory).segments for number, directory in _directories(path).items()}


def batches_from(chunk: bytes, offset: int) -> bytes:
    """The batches of the chunk that end behind `offset`."""
    position = 0
    while position < len(chunk):
        batch = header(chunk, position)
        if batch.base_offset + batch.last_offset_delta >= offset:
            break
        position += batch.size
    return chunk[position:] if position else chunk


def _examine(directory: Path) -> Found:
    for _ in range(_ATTEMPTS):
        try:
            before = _files(directory)
            found = recovery.examine(directory)
            # Names that change while they are listed may be missed, the old one and the new one.
            if _files(directory) == before:
                return found
        except FileNotFoundError:
            continue
    raise LogError(f"{directory}: its files change all the time; try again, or stop what writes it")


def _files(directory: Path) -> list[tuple[str, int, int]]:
    """Name, inode and time: a compacted segment has the name of the first that it replaces. Of the
    last, which grows, the name only. One that goes while they are listed is as good as gone."""
    paths = sorted(directory.glob("*.log*"))
    known = []
    for path in paths[:-1]:
        with contextlib.suppress(FileNotFoundError):
            known.append((path.name, (of := path.stat()).st_ino, of.st_mtime_ns))
    return known + [(path.name, 0, 0) for path in paths[-1:]]


def _segments(found: Found) -> list[tuple[SegmentFile, int]]:
    return [(one.file, one.sound_bytes) for one in found.segments]


def _directories(path: Path) -> dict[int, Path]:
    found = partition_directories(path)
    if found or (path / checkpoint.PROPERTIES_FILE).exists():
        return found
    if _PARTITION_NAME.fullmatch(path.absolute().name) or plan(path).segments:
        return {_number(path.absolute()): path}
    raise _no_log(path)


def _no_log(path: Path) -> LogError:
    return LogError(
        f"{path}: no log here; give a data directory, a {TOPIC}-N folder or a .log segment file"
    )


def _number(directory: Path) -> int:
    match = _PARTITION_NAME.fullmatch(directory.name)
    return int(match[1]) if match else 0


def _segment(path: Path) -> SegmentFile:
    """A file under another name than Kafka's starts at the offset that its first batch says.
    Raises LogError for one that is no log, or is compressed."""
    refuse_packed_file(path)
    match = _SEGMENT_NAME.match(path.name)
    if match:
        return SegmentFile(int(match[1]), path)
    with open(path, "rb") as file:
        head = file.read(_MAGIC_AT + 1)
    if head and (len(head) <= _MAGIC_AT or head[_MAGIC_AT] > _NEWEST_MAGIC):
        raise _no_log(path)
    return SegmentFile(max(0, int.from_bytes(head[:8], "big", signed=True)), path)
