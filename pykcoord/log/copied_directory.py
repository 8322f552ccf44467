"""A data directory that copies another server's `__consumer_offsets`: what `pykcoord watch` keeps.

It has the layout of any data directory, so that all that reads logs reads it. Beside it stands
`watch.json`: which cluster and topic it is of, and until when it was followed. A copy that cannot
be continued is moved to a folder `before-TIME` within it, whole, and another begins.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, Self

from pykcoord.errors import LogError
from pykcoord.log import checkpoint
from pykcoord.log.checkpoint import PROPERTIES_FILE, Properties
from pykcoord.log.copied import CopiedPartition
from pykcoord.log.durable import make_directory, new_directory, sync_directory
from pykcoord.log.folders import TOPIC, partition_directories
from pykcoord.log.lock import DirectoryLock, locked
from pykcoord.log.state_file import StateFile

__all__ = ["CopiedDirectory", "Origin", "is_copy"]

WATCH_FILE = "watch.json"


class Origin(NamedTuple):
    """What a directory is a copy of. `topic_id` is that of `__consumer_offsets` (16 bytes),
    `followed_ms` when it was followed last, in ms since the epoch."""

    cluster_id: str
    topic_id: bytes
    partitions: int
    followed_ms: int


def is_copy(path: Path) -> bool:
    """Whether `path` is the directory of `pykcoord watch`. Raises OSError."""
    return (path / WATCH_FILE).exists()


class CopiedDirectory:
    """Locked from `open` to `close`. `origin` is None until `begin`."""

    def __init__(self, path: Path, lock: DirectoryLock, segment_bytes: int) -> None:
        self.path = path
        self.partitions: dict[int, CopiedPartition] = {}
        self._lock = lock
        self._segment_bytes = segment_bytes
        self._file = StateFile(path / WATCH_FILE)
        # -1, unless something else has opened the directory for writing since.
        self._opened_under = -1
        self.origin = self._read()

    @classmethod
    def open(cls, path: Path, segment_bytes: int = 104857600) -> Self:
        """Locks the directory, which is made if it is missing. Raises LogLockedError, LogError for
        one that is no copy, OSError."""
        return locked(path, lambda path, lock: cls(path, lock, segment_bytes))

    def begin(self, origin: Origin) -> None:
        """It is a copy of that from now on, and holds nothing yet or a part of it."""
        for number in range(origin.partitions):
            folder = self.path / f"{TOPIC}-{number}"
            if not folder.is_dir():
                new_directory(folder)
                checkpoint.write_partition_metadata(folder, origin.topic_id)
        self._write_properties(origin)
        self._write(origin)

    def partition(self, number: int, replay: Callable[[bytes], None]) -> CopiedPartition:
        """Reads a partition and hands what it holds to `replay`. Raises LogError, OSError."""
        assert self.origin is not None, "begin comes first"
        self.close_partition(number)
        opened = CopiedPartition.open(
            self.path / f"{TOPIC}-{number}", self.origin.topic_id, self._segment_bytes, replay
        )
        self.partitions[number] = opened
        if self._opened_under >= 0 and opened.last_epoch >= self._opened_under:
            raise LogError(
                f"{self.path}: pykcoord has served this directory since it was a copy of cluster "
                f"{self.origin.cluster_id}; what it wrote is not Kafka's: name another directory, "
                "and watch begins another copy there"
            )
        return opened

    def taken_over(self) -> None:
        """All partitions were read, and are only copies: the next one who looks need not ask.
        Raises OSError."""
        if self._opened_under >= 0 and self.origin is not None:
            self._write_properties(self.origin)
            self._opened_under = -1

    def close_partition(self, number: int) -> None:
        """Syncs and closes it, if it is open."""
        if (known := self.partitions.pop(number, None)) is not None:
            known.close()

    def set_aside(self, now_ms: int, number: int | None = None) -> Path:
        """Moves the copy, or that of one partition, into a folder `before-TIME`, and returns it. To
        be followed by `begin`, or by `partition` of that one."""
        moment = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y%m%dT%H%M%S.%f")[:-3]
        aside = self.path / f"before-{moment}Z"
        make_directory(aside)
        moved = list(self.partitions) if number is None else [number]
        for one in moved:
            self.close_partition(one)
        names = self._names() if number is None else [_folder(number)]
        for name in names:
            if (self.path / name).exists():
                os.rename(self.path / name, aside / name)
        sync_directory(aside)
        sync_directory(self.path)
        return aside

    def follow(self, followed_ms: int) -> None:
        """Syncs all partitions, and remembers that it was followed until then. Raises OSError."""
        self.follow_job(followed_ms)()

    def follow_job(self, followed_ms: int) -> Callable[[], None]:
        """The same for what is there now, to be called once, on any thread."""
        found = [partition.sync_job() for partition in self.partitions.values()]

        def job() -> None:
            for one in found:
                if one is not None:
                    one()
            if self.origin is not None:
                self._write(self.origin._replace(followed_ms=followed_ms))

        return job

    def close(self) -> None:
        """Syncs, closes and unlocks."""
        try:
            for number in list(self.partitions):
                self.close_partition(number)
        finally:
            self._lock.close()

    def _names(self) -> list[str]:
        folders = [path.name for path in partition_directories(self.path).values()]
        return [*folders, PROPERTIES_FILE, WATCH_FILE]

    def _read(self) -> Origin | None:
        document = self._file.read()
        properties = checkpoint.read_properties(self.path)
        if document is None:
            if properties is not None or partition_directories(self.path):
                raise LogError(
                    f"{self.path}: a data directory that is no copy of a watched cluster; name "
                    "another one"
                )
            return None
        try:
            origin = Origin(
                str(document["cluster_id"]),
                bytes.fromhex(document["topic_id"]),
                int(document["partitions"]),
                int(document["followed_ms"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise LogError(
                f"{self._file.path}: not what was written there ({error!r}); move the directory "
                "away, and watch begins another copy"
            ) from None
        if properties is not None:
            self._opened_under = properties.leader_epoch
        return origin

    def _write_properties(self, origin: Origin) -> None:
        properties = Properties(origin.partitions, -1, origin.topic_id, is_whole=True)
        checkpoint.write_properties(self.path, properties)

    def _write(self, origin: Origin) -> None:
        self._file.write({**origin._asdict(), "topic_id": origin.topic_id.hex()})
        self.origin = origin


def _folder(number: int) -> str:
    return f"{TOPIC}-{number}"
