"""One shard's log on shared storage: its leader is the writer of the newest index.

    <log>/log.json                             the number of shards, made once
    <log>/shard-00012/chunks/000000000042     an entry: what became durable together
    <log>/shard-00012/snapshots/000000000040  what all entries below 40 amount to

There is no lease, no lock server and no trust in any clock being right. A leader puts each
entry at the index after the last; if there is one already, another leads, and this one is fenced.
A leader begins with an entry that holds an epoch; the first of a stream also what all begin with.

What is pruned could be made again by a writer that slept since. Therefore: entries go no earlier
than `prune_after_seconds` after their index was seen taken; and a writer that cannot say that it
knew its index free less than that ago looks for a later snapshot before it believes its success.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

from pykcoord.clock import boot_seconds
from pykcoord.errors import ArgumentError, KcoordError
from pykcoord.log.shared.entry import (
    CorruptEntryError,
    Entry,
    Snapshot,
    decode_entry,
    decode_snapshot,
    encode,
)
from pykcoord.log.shared.store import Store, open_store

__all__ = ["FencedError", "ShardLog", "open_logs", "other_kind"]

_LOG_FILE = "log.json"
_FORMAT = 1
# This many snapshots stay: the one before last serves if the last cannot be read.
_KEPT_SNAPSHOTS = 2


class FencedError(KcoordError):
    """Another writer leads the shard: drop it, and acknowledge nothing more."""

    def __init__(self, shard: int, index: int) -> None:
        super().__init__(f"shard {shard}: entry {index} was written by another leader")
        self.shard = shard
        self.index = index


def other_kind(shard: int, found: str) -> ArgumentError:
    """The error for a log that hosts write where a stream is to, or the other way round: `found`
    says by what that is known."""
    return ArgumentError("log", f"shard {shard}: {found}; a log serves a stream or hosts")


def open_logs(location: str | Path, shards: int) -> list[ShardLog]:
    """The logs of all shards at a folder or URL; made if there are none.

    Raises ArgumentError if they were made for another number of shards (the number decides which
    shard a group belongs to, so it cannot change), and what the store raises.
    """
    if shards < 1:
        raise ArgumentError("shards", f"{shards} is not at least 1")
    store = open_store(location)
    wanted = json.dumps({"format": _FORMAT, "shards": shards}).encode()
    if not store.create(_LOG_FILE, wanted):
        found = _properties(store, location)
        if found.get("format") != _FORMAT:
            reason = f"{location} has format {found.get('format')}, not {_FORMAT}"
            raise ArgumentError("log", reason)
        if found.get("shards") != shards:
            reason = f"{location} has {found.get('shards')} shards: ask for as many, or another log"
            raise ArgumentError("shards", reason)
    return [ShardLog(store, shard) for shard in range(shards)]


def _properties(store: Store, location: str | Path) -> dict[str, int]:
    content = store.read(_LOG_FILE) or b""
    try:
        found = json.loads(content)
    except ValueError:
        raise CorruptEntryError(f"{location}/{_LOG_FILE}", "no JSON") from None
    if not isinstance(found, dict):
        raise CorruptEntryError(f"{location}/{_LOG_FILE}", "no JSON object")
    return found


class ShardLog:
    """The log of one shard, as one process sees it. Not thread-safe.

    `load`, `follow` to the end, `claim`; then `append`, and a `snapshot` now and then. What is
    read must be applied before `claim`; if that is lost, there is more to follow.
    """

    def __init__(
        self,
        store: Store,
        shard: int,
        *,
        prune_after_seconds: float = 600.0,
        clock: Callable[[], float] = boot_seconds,
    ) -> None:
        """`clock` gives seconds and counts on during sleep; when it began does not matter.
        `prune_after_seconds` must be the same for all writers of a log.
        """
        self.shard = shard
        self.epoch = -1
        self.next_index = 0
        self.next_offset = 0
        self.now_ms = 0
        self.sources: dict[str, tuple[int, int]] = {}
        self.leads = False
        self._store = store
        self._entries = f"shard-{shard:05}/chunks"  # so it is called in logs that exist
        self._snapshots = f"shard-{shard:05}/snapshots"
        self._prune_after_seconds = prune_after_seconds
        self._clock = clock
        self._free_at = float("-inf")  # when we last knew that `next_index` was free
        self._seen_at: dict[int, float] = {}  # since when we know that an index is taken

    def load(self) -> Snapshot | None:
        """Start from the newest snapshot that can be read; None: the log begins at its start.

        Raises CorruptEntryError if there are snapshots and none of them is sound.
        """
        error: CorruptEntryError | None = None
        self._restart(0, Snapshot(-1, 0))
        for index in reversed(self._snapshot_indexes()):
            name = _object(self._snapshots, index)
            content = self._store.read(name)
            if content is None:
                continue  # pruned since it was listed: a newer one was read, or will be
            try:
                snapshot = decode_snapshot(name, content)
            except CorruptEntryError as found:
                error = error or found
                continue
            self._restart(index, snapshot)
            return snapshot
        if error is not None:
            raise error
        return None

    def follow(self) -> Iterator[Entry]:
        """The entries from here to the end of the log, as far as it is written by now.

        Raises FencedError if it went on so far that the next of them is pruned: load it again.
        """
        while True:
            before = self._clock()
            name = _object(self._entries, self.next_index)
            content = self._store.read(name)
            if content is None and before - self._free_at >= self._prune_after_seconds:
                content = self._read_again(name)
            if content is None:
                self._free_at = before
                return
            entry = decode_entry(name, content)
            self._check(name, entry)
            self._accept(entry)
            yield entry

    def require_unpruned(self) -> None:
        """Nothing was ever pruned, so what was read is what was first written there, and no entry
        that a writer made again. Raises FencedError if there is a snapshot by now: load it."""
        self._require_tail(-1)

    def claim(self, owner: str, now_ms: int, state: bytes = b"") -> bool:
        """Become the leader, under the next epoch; False: another wrote, so `follow` first.

        `owner` is for people: it says who led. `state`, if any: what a log that is new begins with,
        for all who follow. Raises FencedError if the log went on so far that it must be loaded
        again.
        """
        epoch, offset = self.epoch + 1, self.next_offset
        start = Entry(epoch, offset, now_ms=now_ms, source=owner, responses=state)
        if not self._create(start):
            return False
        self._require_tail(self.next_index - 1)
        self.leads = True
        return True

    def append(
        self,
        batches: bytes,
        record_count: int,
        *,
        now_ms: int,
        source: str = "",
        sequence: int = -1,
        responses: bytes = b"",
    ) -> int:
        """Make records durable; returns the index of their entry.

        Raises FencedError if another leads by now, and what the store raises: then it is not known
        whether they were written. After either, this log is of no use any more.
        """
        assert self.leads, "append is the leader's"
        self.leads = False  # if anything goes wrong now
        index, known_free_at = self.next_index, self._free_at
        entry = Entry(
            self.epoch, self.next_offset, record_count, now_ms, source, sequence, batches, responses
        )
        if not self._create(entry):
            raise FencedError(self.shard, index)
        if self._clock() - known_free_at >= self._prune_after_seconds:
            self._require_tail(index)
        self.leads = True
        return index

    def repeated(self, source: str, sequence: int) -> Entry | None:
        """The entry that `source` wrote as `sequence`, if that was the last that it wrote.

        Raises ArgumentError for a sequence before the last: it was answered long ago.
        """
        last, index = self.sources.get(source, (-1, -1))
        if sequence > last:
            return None
        if sequence < last:
            raise ArgumentError("sequence", f"{sequence} of {source} comes after {last}")
        name = _object(self._entries, index)
        content = self._store.read(name)
        if content is None:
            raise CorruptEntryError(name, "is gone, though it is the last of its source")
        return decode_entry(name, content)

    def snapshot(self, content: bytes) -> None:
        """Say what everything up to here amounts to, and `prune`. Any reader may: what it has
        followed does not change. It is the leader's duty."""
        entry = Snapshot(self.epoch, self.next_offset, self.now_ms, content, self.sources)
        self._store.create(_object(self._snapshots, self.next_index), encode(entry))
        self.prune()

    def prune(self) -> None:
        """Delete what is not needed any more, since there are snapshots: old snapshots, and of the
        entries those that this log has known for `prune_after_seconds`."""
        snapshots = self._snapshot_indexes()
        for index in snapshots[:-_KEPT_SNAPSHOTS]:
            self._store.delete(_object(self._snapshots, index))
        covered = snapshots[-_KEPT_SNAPSHOTS:][0] if snapshots else 0
        owed = {index for _, index in self.sources.values()}
        now = self._clock()
        for index in map(int, self._store.names(self._entries)):
            old = now - self._seen_at.setdefault(index, now) > self._prune_after_seconds
            if index < covered and old and index not in owed:
                self._store.delete(_object(self._entries, index))
                del self._seen_at[index]

    def _create(self, entry: Entry) -> bool:
        content, before = encode(entry), self._clock()
        made = self._store.create(_object(self._entries, self.next_index), content)
        if made:
            self._accept(entry)
            self._free_at = before  # no writer takes the next index before this one is there
        return made

    def _accept(self, entry: Entry) -> None:
        if entry.sequence >= 0:
            self.sources[entry.source] = (entry.sequence, self.next_index)
        self._seen_at[self.next_index] = self._clock()
        self.epoch = entry.epoch
        self.next_offset = entry.next_offset
        self.now_ms = max(self.now_ms, entry.now_ms)
        self.next_index += 1

    def _check(self, name: str, entry: Entry) -> None:
        if entry.epoch != self.epoch + entry.begins_epoch:
            raise CorruptEntryError(name, f"is of epoch {entry.epoch} after {self.epoch}")
        if entry.base_offset != self.next_offset:
            reason = f"begins at offset {entry.base_offset}, not at {self.next_offset}"
            raise CorruptEntryError(name, reason)

    def _restart(self, index: int, snapshot: Snapshot) -> None:
        self.epoch, self.next_offset = snapshot.epoch, snapshot.next_offset
        self.now_ms, self.sources = snapshot.now_ms, dict(snapshot.sources)
        self.next_index, self.leads = index, False
        self._free_at, self._seen_at = float("-inf"), {}

    def _require_tail(self, index: int) -> None:
        """What we put at `index` counts only if no snapshot says that the log had passed it."""
        if any(later > index for later in self._snapshot_indexes()):
            self.leads = False
            raise FencedError(self.shard, index)

    def _read_again(self, name: str) -> bytes | None:
        """The next entry, which was not there a moment ago; None: it is not written yet. Raises
        FencedError if it is pruned. Where the log went on, this one does not lead any more."""
        try:
            self._require_tail(self.next_index)
        except FencedError:
            content = self._store.read(name)  # it may have come since
            if content is None:
                raise
            return content
        return None

    def _snapshot_indexes(self) -> list[int]:
        return [int(name) for name in self._store.names(self._snapshots)]


def _object(folder: str, index: int) -> str:
    return f"{folder}/{index:012}"
