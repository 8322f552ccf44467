"""Where a recorder puts events: files beside the log of a directory, or another place alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

from pykcoord.log.events import EventLimits, EventLog, Kept, Merge, Records
from pykcoord.log.lock import DirectoryLock

__all__ = ["Cut", "EventKeeper", "FileKeeper", "Kept"]

Cut = tuple[int, int]
"""How many events went because a group, or all of a shard, had more than it may have."""


class EventKeeper(Protocol):
    """Where events are put. All but `leads` on one thread, and it may block."""

    @property
    def name(self) -> str:
        """The place, for a line of log."""

    @property
    def linger_seconds(self) -> float:
        """How long events wait for others, so that one write has several."""

    @property
    def is_shared(self) -> bool:
        """Whether other processes keep events of the same shards, before this one and after it."""

    def leads(self, shard: int, epoch: int) -> None:
        """This process leads the shard from now on, in that epoch."""

    def append(self, records: Mapping[int, Sequence[Kept | Records]]) -> dict[int, Exception]:
        """Write records by shard, single ones before others. Those whose records are not kept, and
        why."""

    def expire(self, now_ms: int) -> dict[int, Exception]:
        """Remove what is too old, or more than there may be. Where that fails, and why."""

    def take_cut(self) -> Cut:
        """How many went since the last call."""

    def close(self) -> None:
        """Nothing is written any more."""


class FileKeeper:
    """Logs in `directory`, of which this process is the one writer. `merge` puts full segments
    together; `lock`: to be given up when it is closed."""

    linger_seconds = 0.25
    is_shared = False

    def __init__(
        self,
        directory: Path,
        limits: EventLimits,
        merge: Merge,
        lock: DirectoryLock | None = None,
    ) -> None:
        self._lock = lock
        self.name = str(directory)
        self._directory = directory
        self._limits = limits
        self._merge = merge
        self._logs: dict[int, EventLog] = {}

    def leads(self, shard: int, epoch: int) -> None:
        """See `EventKeeper`: a file says itself where it ends."""

    def append(self, records: Mapping[int, Sequence[Kept | Records]]) -> dict[int, Exception]:
        """See `EventKeeper`."""
        failed: dict[int, Exception] = {}
        for shard, of_shard in records.items():
            try:
                if shard not in self._logs:
                    made = EventLog(self._directory, shard, self._limits, self._merge)
                    self._logs[shard] = made
                self._logs[shard].append(of_shard)
            except Exception as error:  # groups are served on, whatever is wrong with this log
                self._logs.pop(shard, None)
                failed[shard] = error
        return failed

    def expire(self, now_ms: int) -> dict[int, Exception]:
        """See `EventKeeper`."""
        works = {shard: partial(log.expire, now_ms) for shard, log in self._logs.items()}
        return _failures(works)

    def take_cut(self) -> Cut:
        """See `EventKeeper`."""
        group = shard = 0
        for log in self._logs.values():
            group, shard = group + log.over_group, shard + log.over_shard
            log.over_group = log.over_shard = 0
        return group, shard

    def close(self) -> None:
        """See `EventKeeper`."""
        if self._lock is not None:
            self._lock.close()


def _failures(works: Mapping[int, Callable[[], None]]) -> dict[int, Exception]:
    """Do each, whatever becomes of the others: those that failed, and why."""
    failed: dict[int, Exception] = {}
    for shard, work in works.items():
        try:
            work()
        except Exception as error:
            failed[shard] = error
    return failed
