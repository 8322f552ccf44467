"""A shard log as a data directory: `__consumer_offsets-N` folders of segments that Kafka reads.

Carries the live records of each shard, as `pykcoord log export` does, and checks the result against
the source before it gets its name. It never writes into the log.
"""

from __future__ import annotations

import json
import os
import tempfile
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from pykcoord.cluster import ClusterFollower, is_cluster, read_shard
from pykcoord.errors import ArgumentError, LogError
from pykcoord.log.shared import FencedError, ShardLog, Store, open_store
from pykcoord.transfer import Amount, Target, amount_at, amount_of, carry, difference

__all__ = ["Exported", "export"]

_SEGMENT_BYTES = 104_857_600
_LOG_FILE = "log.json"


@dataclass(frozen=True, slots=True)
class Exported:
    """The size of an export."""

    shards: int
    groups: int
    members: int
    offsets: int
    pending: int
    size_bytes: int


def export(
    log: str | Path,
    directory: Path,
    *,
    topic_id: bytes | None = None,
    progress: Callable[[int, int], None] = lambda shard, shards: None,
) -> Exported:
    """Makes `directory`, which must be new or empty, of the shard log at a folder or URL.

    It is one for `pykcoord serve`, or with `topic_id` (16 bytes) the partitions of the broker's
    topic of that id. `progress` gets the shard that is read. Writers may go on: their records of
    that time are in it or not.

    Raises ArgumentError if there is no log or `directory` is not empty, LogError for what cannot be
    applied or lies in the wrong shard, and what the store raises.
    """
    shards = _Shards(log, progress)
    target = Target(directory, shards.partitions, topic_id or uuid.uuid4().bytes, _SEGMENT_BYTES)
    try:
        with tempfile.TemporaryFile(dir=target.partial) as shards.aside:
            before = amount_of(shards, shards.partitions, True, lambda _: None)
            carry(shards, target, topic_ids=[], keep_open=True, progress=lambda _: None)
        target.seal(own=topic_id is None)
        after = amount_at(target.partial, shards.partitions, True)
        if (what := difference(before, after)) is not None:
            raise LogError(f"{directory}: not made: {what} would not be what it is in {log}")
        target.publish()
    except BaseException:
        target.discard()
        raise
    return _exported(shards.partitions, after, target.size_bytes)


def _exported(shards: int, amount: Amount, size_bytes: int) -> Exported:
    return Exported(
        shards, len(amount.groups), amount.members, amount.offsets,
        sum(amount.pending.values()), size_bytes,
    )  # fmt: skip


class _Shards:
    """A shard log as `carry` reads one: the records of each shard. The first reading is kept for
    the second: a log that is written meanwhile loses its oldest entries."""

    aside: IO[bytes]

    def __init__(self, location: str | Path, progress: Callable[[int, int], None]) -> None:
        self._store: Store = open_store(location)
        self._location = location
        self._progress = progress
        self._kept: dict[int, list[tuple[int, int]]] = {}
        self._cluster: ClusterFollower | None = None
        if is_cluster(self._store):
            self._cluster = ClusterFollower(os.fspath(location), self._store)
        self.partitions = self._count()

    def _count(self) -> int:
        if self._cluster is not None:
            return self._cluster.read().shards
        content = self._store.read(_LOG_FILE)
        if content is None:
            raise ArgumentError("LOG", f"{self._location} is no shard log: it has no {_LOG_FILE}")
        try:
            found: dict[str, Any] = json.loads(content)
            return int(found["shards"])
        except (ValueError, TypeError, LookupError):
            raise ArgumentError("LOG", f"{self._location}/{_LOG_FILE} is damaged") from None

    def read(self, shard: int) -> Iterator[bytes]:
        """Batches of records; both times the same, also if more is written in between."""
        self._progress(shard, self.partitions)
        if shard in self._kept:
            for at, size in self._kept[shard]:
                self.aside.seek(at)
                yield self.aside.read(size)
            return
        kept = []
        for batches in self._read(shard):
            kept.append((self.aside.seek(0, os.SEEK_END), len(batches)))
            self.aside.write(batches)
            yield batches
        self._kept[shard] = kept

    def _read(self, shard: int) -> Iterator[bytes]:
        if self._cluster is not None:
            self._cluster.read()
            pieces = read_shard(self._store, shard, self._cluster.lineage(shard))
            yield from (piece.content for piece in pieces if piece.content)
            return
        log = ShardLog(self._store, shard)
        snapshot = log.load()
        if snapshot is not None:
            if self._is_whole(shard, log.next_index):
                log = ShardLog(self._store, shard)
            elif snapshot.is_checkpoint:
                raise LogError(
                    f"{self._location}: shard {shard}: the first entries were pruned, and the "
                    "snapshot of a streaming query holds no records: nothing can be exported"
                )
            elif snapshot.content:
                yield snapshot.content
        try:
            yield from (entry.batches for entry in log.follow() if entry.batches)
        except FencedError:
            reason = "was pruned while it was read: export it again"
            raise LogError(f"{self._location}: shard {shard}: {reason}") from None

    def _is_whole(self, shard: int, below: int) -> bool:
        names = self._store.names(f"shard-{shard:05}/chunks")
        return set(range(below)) <= {int(name) for name in names}
