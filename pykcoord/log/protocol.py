"""What the runtime sees of a log: one small protocol, and the words for what came of it.

Nothing here touches a file. A log knows neither the native core nor the runtime.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from pykcoord.errors import LogError
from pykcoord.log._record_batch import frame

__all__ = [
    "Append",
    "Cut",
    "Done",
    "Failure",
    "Flush",
    "Loader",
    "Log",
    "LogObserver",
    "OnCorruption",
    "ShardLostError",
    "ShardReleasedError",
    "Taken",
    "WatchedLog",
    "by_shard",
]

Flush = Literal["commit", "interval", "os"]
"""When an append counts as committed: synced; written, synced at intervals; written."""

OnCorruption = Literal["refuse", "truncate"]
"""What happens to damage with sound batches behind it."""

Failure = OSError | LogError


class Append(NamedTuple):
    """One batch to be written to the log of `shard`.

    `records` is the records area of a RecordBatch v2 with `record_count` (at least 1) records;
    `base_offset` is the shard's next offset, counted from `Taken.next_offset` (see `Log.append`);
    `base_timestamp` and `max_timestamp` are those of the batch, in ms since the epoch.
    `producer_id` and `producer_epoch`: of the transaction that the batch belongs to; -1: of none.
    `is_marker`: it is the control batch that ends it. `pykcoord.record_batch` makes the bytes.
    """

    shard: int
    base_offset: int
    record_count: int
    base_timestamp: int
    max_timestamp: int
    records: bytes
    producer_id: int = -1
    producer_epoch: int = -1
    is_marker: bool = False


def record_batch(append: Append, leader_epoch: int = 0) -> bytes:
    """The bytes of `append` for a log: one RecordBatch v2 with its CRC-32C, as Kafka writes it, and
    as `Shard.replay` reads it."""
    _, base_offset, count, base_timestamp, max_timestamp, records, *_ = append
    producer = append.producer_id, append.producer_epoch, append.is_marker
    return frame(
        records, count, base_offset, base_timestamp, max_timestamp, leader_epoch, *producer
    )


Done = Callable[[list[tuple[int, int]], list[tuple[int, Failure]]], None]
"""`done(committed, failed)`: committed are (shard, end offset), failed are (shard, error)."""


class ShardLostError(LogError):
    """The store appends to this shard no longer: it must be released. `fenced`: because another
    process leads it."""

    def __init__(self, shard: int, reason: str, *, fenced: bool) -> None:
        super().__init__(f"shard {shard}: {reason}")
        self.shard = shard
        self.fenced = fenced


class ShardReleasedError(LogError):
    """The shard was released, or never taken: it is not known whether the records are there. Of a
    shard that is served it is a failure like any other: the shard is taken again."""

    def __init__(self, shard: int) -> None:
        super().__init__(f"shard {shard} is not led by this process")
        self.shard = shard


class Taken(NamedTuple):
    """A shard that is led from now on: its state in `loader`, `next_offset`, the offset of the next
    record, and `epoch`, the leader epoch that stands in its batches."""

    loader: Any
    next_offset: int
    epoch: int


@runtime_checkable
class Log(Protocol):
    """A store of `shards` shards, each a partition of `__consumer_offsets`.

    A shard is taken before anything is appended to it, and may be released. Taking and releasing
    are a shard's; appending is the store's: one call a turn, for all shards.

    Once an append of a shard has failed, the store appends nothing more to it until it is taken
    again: there is no gap in what is durable. Appends that come meanwhile fail for a like reason.
    They do not fail with ShardReleasedError, unless it was released: what is heard first is taken
    for the reason, and calls of `done` on two threads have no order.

    A store that loses a shard while none of its appends is on its way has nothing to fail: the next
    append fails. Whoever leads shards, and learns of it earlier, releases the shard.
    """

    @property
    def shards(self) -> int:
        """The number of shards."""

    def take(self, shard: int, new_loader: Callable[[], Any]) -> Taken:
        """Leads the shard from now on: fences an earlier leader, where there may be one, and reads
        all that is durable into a loader, which `new_loader` makes, once, on the calling thread;
        or gives a loader of the same kind that it has filled already, as a follower does. It
        blocks. All appends that were handed over earlier have been named by `done` when it returns.

        Raises ShardLostError if another process leads the shard, OSError or another LogError if the
        storage fails or is not sound: the shard stays as it was. Raises what `replay` raises.
        """

    def release(self, shard: int) -> None:
        """Appends nothing more to the shard. `done` names what was on its way as failed, with
        ShardReleasedError, unless it is durable; all of it is named when this returns."""

    def append(self, appends: Sequence[Append], done: Done) -> None:
        """Takes over the appends of a turn, of any shards, and returns at once.

        `done` may be called on any thread, and several times: each shard of the call is named
        exactly once, as soon as all of its appends in this call are durable, or one has failed.
        Calls may share a write; the ends that `done` names of a shard rise.

        Offsets are counted from what `take` gave, without gaps: `done` names ends in this count,
        which answers wait for. A store that assigns offsets itself (it writes records of its own
        between, or others write to the same partition) keeps the two numbers beside each other: the
        batches that it later gives to `replay` have its own offsets, with gaps where they are, and
        the next `take` gives its own end.

        Durable is what the store says it is: synced, written to a shared object, or at or below a
        high watermark. `done` may be as late as that takes; turns go on meanwhile, and each has a
        call of its own.
        """

    def close(self) -> None:
        """Finishes what was handed over, and closes everything; nothing is appended afterwards."""


@runtime_checkable
class WatchedLog(Log, Protocol):
    """A store that learns of a takeover without an append: one that can be asked who leads.

    Without this, a coordinator that lost a shard answers heartbeats and fetches of offsets from
    memory until it appends again.
    """

    def start_watching(self, lost: Callable[[LogError], None]) -> None:
        """Called once, when all shards are taken. From then on, until `close`, the store calls
        `lost` once another process leads one of them: with ShardLostError, on any thread, as often
        as it likes. The coordinator ends."""


class Loader(Protocol):
    """The state of one partition, as it is built from its log. The log knows no more of it."""

    def replay(self, chunk: bytes) -> None:
        """Whole, checked, uncompressed batches, in order. Raises ValueError for what no coordinator
        wrote; the loader is of no use then."""

    def restore(self, chunk: bytes) -> None:
        """The same, for what `snapshot_chunk` gave, before anything is replayed."""

    def snapshot_chunk(self) -> bytes | None:
        """The next part of the state, written down; None behind the last."""


class LogObserver(Protocol):
    """Called by the writer thread with what it did, for metrics. Must neither block nor raise."""

    def appended(self, shard: int, batches: int, size_bytes: int) -> None:
        """So much was written to the log of `shard`."""

    def synced(self, files: int, seconds: float) -> None:
        """So many files were synced together, in so many seconds."""


class Cut(NamedTuple):
    """What recovery took away: everything of `file` from `position` on, `cut_bytes` in all.

    `offset` is the log's next offset after it, `reason` what was wrong at `position`, `kept_as`
    where the bytes and any later segments were put (empty if they held nothing sound, or for a log
    that is only read).
    """

    file: Path
    position: int
    offset: int
    cut_bytes: int
    reason: str
    kept_as: tuple[Path, ...] = ()

    def __str__(self) -> str:
        kept = f"; kept as {', '.join(map(str, self.kept_as))}" if self.kept_as else ""
        return f"{self._place}; {self.cut_bytes} bytes cut{kept}"

    @property
    def unread(self) -> str:
        """The same for a log that is only read: nothing of it was taken away."""
        return f"{self._place}; {self.cut_bytes} bytes from there on are not read"

    @property
    def _place(self) -> str:
        return f"{self.file}: byte {self.position}, offset {self.offset}: {self.reason}"


def by_shard(appends: Iterable[Append]) -> dict[int, list[Append]]:
    """The appends of each shard, in their order."""
    found: dict[int, list[Append]] = {}
    for append in appends:
        found.setdefault(append.shard, []).append(append)
    return found
