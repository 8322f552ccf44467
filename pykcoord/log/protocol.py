"""What the runtime sees of a log: one small protocol, and the words for what came of it.

Nothing here touches a file. A log knows neither the native core nor the runtime.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from pykcoord.errors import LogError

__all__ = [
    "Append",
    "Cut",
    "Done",
    "Failure",
    "Flush",
    "Log",
    "LogObserver",
    "OnCorruption",
    "Replica",
]

Flush = Literal["commit", "interval", "os"]
"""When an append counts as committed: synced; written, synced at intervals; written."""

OnCorruption = Literal["refuse", "truncate"]
"""What happens to damage with sound batches behind it."""

Failure = OSError | LogError


class Append(NamedTuple):
    """One batch to be written to the log of `shard`.

    `records` is the records area of a RecordBatch v2 with `record_count` (at least 1) records;
    `base_offset` must be the shard's next offset; timestamps are in ms since the epoch.
    """

    shard: int
    base_offset: int
    record_count: int
    base_timestamp: int
    max_timestamp: int
    records: bytes


Done = Callable[[list[tuple[int, int]], list[tuple[int, Failure]]], None]
"""`done(committed, failed)`: committed are (shard, end offset), failed are (shard, error)."""


class Log(Protocol):
    """A durable log of `shards` partitions of `__consumer_offsets`."""

    @property
    def shards(self) -> int:
        """The number of partitions."""

    def read(self, shard: int) -> Iterator[bytes]:
        """The log from its start: chunks (up to a MB) of whole, checked, uncompressed batches."""

    def next_offset(self, shard: int) -> int:
        """The offset of the next record to be written."""

    def append(self, appends: Sequence[Append], done: Done) -> None:
        """Hands the appends to the writer thread and returns.

        `done` is called on that thread, once, when all of them are durable by the flush policy, or
        have failed. All that arrives while a sync is under way shares the next one.
        """

    def reopen(self, shard: int) -> None:
        """Recovers a shard whose append failed from disk, so that it can be read and appended to.

        Raises OSError or LogError if the disk still fails: the shard stays as it was.
        """

    def close(self) -> None:
        """Writes, syncs and closes everything; appends that arrive later are refused."""


class Replica(Protocol):
    """The state of one partition, as it is built from its log. The log knows no more of it."""

    def replay(self, chunk: bytes) -> None:
        """Whole, checked, uncompressed batches, in order. Raises ValueError for what no coordinator
        wrote; the replica is of no use then."""

    def restore(self, chunk: bytes) -> None:
        """The same, for what `snapshot_chunk` gave, before anything is replayed."""

    def snapshot_chunk(self) -> bytes | None:
        """The next part of the state, written down; None behind the last."""


class LogObserver(Protocol):
    """Told by the writer thread what it did, for metrics. Must neither block nor raise."""

    def appended(self, shard: int, batches: int, size_bytes: int) -> None:
        """So much was written to the log of `shard`."""

    def synced(self, files: int, seconds: float) -> None:
        """So many files were synced together, in so many seconds."""


class Cut(NamedTuple):
    """What recovery took away: everything of `file` from `position` on.

    `offset` is the log's next offset after it, `kept_as` where the bytes and any later segments
    were put (empty if they held nothing sound, or for a log that is only read).
    """

    file: Path
    position: int
    offset: int
    cut_bytes: int
    reason: str
    kept_as: tuple[Path, ...] = ()

    def __str__(self) -> str:
        kept = f"; kept as {', '.join(map(str, self.kept_as))}" if self.kept_as else ""
        return (
            f"{self.file}: byte {self.position}, offset {self.offset}: {self.reason}; "
            f"{self.cut_bytes} bytes cut{kept}"
        )
