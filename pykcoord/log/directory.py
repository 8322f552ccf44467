"""A directory of `__consumer_offsets` partitions, open for writing: the `Log` of the runtime.

One process at a time writes a partition: a lock while it lives, a leader epoch against all that the
lock does not see. Must never create, cut or rename anything before it holds the lock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

from pykcoord.errors import ArgumentError, CorruptLogError, LogError
from pykcoord.log import recovery
from pykcoord.log.checkpoint import Properties
from pykcoord.log.compaction import Cleaned, Compaction, LogCleaner
from pykcoord.log.durable import sync_directory
from pykcoord.log.folders import TOPIC
from pykcoord.log.holding import Held, HeldPart, Holding, Part
from pykcoord.log.loading import Loaded, load
from pykcoord.log.partition import Partition
from pykcoord.log.presence import Watch
from pykcoord.log.protocol import (
    Append,
    Cut,
    Done,
    Failure,
    Flush,
    Loader,
    LogObserver,
    OnCorruption,
    ShardReleasedError,
    Taken,
)
from pykcoord.log.snapshot import SNAPSHOT_FILE
from pykcoord.log.snapshotter import Snapshots, Snapshotter
from pykcoord.log.state_file import StateFile
from pykcoord.log.writer import Writer

__all__ = ["LogDirectory"]

_logger = logging.getLogger(__name__)

_SCAN_THREADS = 4


class LogDirectory:
    """The log of one coordinator, in Kafka's layout. Made by `open`; see `Log` for the methods."""

    def __init__(
        self,
        path: Path,
        held: Held,
        shards: int,
        partitions: dict[int, Partition],
        properties: Properties,
        writer: Writer,
        segment_bytes: int,
        loaded: Mapping[int, Loaded],
    ) -> None:
        self.path = path
        self.shards = shards
        """The number of partitions of the directory."""
        self.leader_epoch = properties.leader_epoch
        self.topic_id = properties.topic_id
        self.cuts: list[Cut] = [p.cut for p in partitions.values() if p.cut is not None]
        self._held = held
        self._watch: Watch | None = None
        self._partitions = partitions
        self._writer = writer
        self._loaded = dict(loaded)
        self._snapshotter: Snapshotter | None = None
        self._segment_bytes = segment_bytes
        self._cleaner: LogCleaner | None = None

    @classmethod
    def open(
        cls,
        path: Path | str,
        *,
        partitions: int = 50,
        segment_bytes: int = 104857600,
        flush: Flush = "commit",
        flush_interval_ms: int = 1000,
        on_corruption: OnCorruption = "refuse",
        observer: LogObserver | None = None,
        monotonic: Callable[[], float] = lambda: 0.0,
        new_loader: Callable[[], Loader] | None = None,
        use_snapshots: bool = True,
        part: Part | None = None,
    ) -> Self:
        """Locks, recovers and opens the directory; creates what is missing of it. `part`: another
        process holds it, and only some of its partitions are opened here.

        `partitions` is offsets.topic.num.partitions and must be what the directory was made with,
        `segment_bytes` offsets.topic.segment.bytes. What recovery cut is in `cuts`. `monotonic`
        (seconds) is only used to measure for the `observer` how long a sync took. With `new_loader`
        each partition is replayed while it is checked, from its snapshot on if that fits and
        `use_snapshots`: `take` hands it on.

        Raises LogLockedError, CorruptLogError (nothing was changed), ConfigError for another number
        of partitions, OSError, and what replay raises.
        """
        _check_arguments(partitions, segment_bytes, flush, flush_interval_ms, on_corruption)
        # The process may change its working directory.
        directory = Path(path).absolute()
        held: Held
        if part is None:
            held = Holding.take(directory, partitions)
        else:
            held = HeldPart(directory, partitions, part)
        opened: dict[int, Partition] = {}
        try:
            names = {shard: directory / f"{TOPIC}-{shard}" for shard in held.shards}
            # Of no topic that is: snapshots of a directory without properties fit none.
            topic_id = (held.topic_id or bytes(16)).hex() if use_snapshots else None
            loaded = _load_all(names, on_corruption, new_loader, topic_id)
            epochs = [one.found.leader_epoch for one in loaded.values()]
            properties = held.begin(max(epochs, default=-1))
            for one in loaded.values():
                if one.lost is not None:
                    _set_snapshot_aside(one.found.directory, one.lost)
            for shard, name in names.items():
                partition = Partition(
                    name,
                    topic_id=properties.topic_id,
                    segment_bytes=segment_bytes,
                    keep_unsynced=flush != "commit",
                    on_corruption=on_corruption,
                    found=loaded[shard].found if shard in loaded else None,
                    presence=held.presence,
                )
                partition.leader_epoch = properties.leader_epoch
                opened[shard] = partition
            writer = Writer(opened, flush, flush_interval_ms, observer, monotonic, held.presence)
            return cls(
                directory, held, partitions, opened, properties, writer, segment_bytes, loaded
            )
        except BaseException:
            for partition in opened.values():
                partition.close()
            held.lock.close()
            raise

    @property
    def led(self) -> Sequence[int]:
        """The partitions that are open here: all, unless another process holds the directory."""
        return tuple(self._partitions)

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments of all partitions. May be asked on any thread."""
        return sum(partition.size_bytes for partition in self._partitions.values())

    def take(self, shard: int, new_loader: Callable[[], Any]) -> Taken:
        """See `Log.take`. The directory was locked when it was opened, and no other process writes
        there. The first time the loader is the one that was read then, if there is one."""
        self.reopen(shard)
        loaded = self._loaded.get(shard)
        if loaded is not None and loaded.loader is not None:
            self._loaded[shard] = loaded._replace(loader=None)
            return Taken(loaded.loader, self.next_offset(shard), self.leader_epoch)
        loader = new_loader()
        for chunk in self.read(shard):
            loader.replay(chunk)
        return Taken(loader, self.next_offset(shard), self.leader_epoch)

    def release(self, shard: int) -> None:
        """See `Log.release`. The lock stays: it is the directory's."""
        self._writer.call(lambda: self._partitions[shard].fail(ShardReleasedError(shard)))

    def read(self, shard: int) -> Iterator[bytes]:
        """Chunks (up to a MB) of whole, CRC-checked, uncompressed batches, from the log's start."""
        return self._partitions[shard].read()

    def next_offset(self, shard: int) -> int:
        """The offset of the next record to be written."""
        return self._partitions[shard].next_offset

    def append(self, appends: Sequence[Append], done: Done) -> None:
        """Hands the appends to the writer thread; `done` is called there. See `Log.append`."""
        self._writer.submit(appends, done)

    def reopen(self, shard: int) -> None:
        """Recovers a shard whose append failed. Blocks until what was queued before is answered."""
        before = self._partitions[shard].cut
        self._writer.reopen(shard)
        cut = self._partitions[shard].cut
        if cut is not None and cut is not before:
            self.cuts.append(cut)
            _logger.warning("%s", cut, extra={"event": "cut", "shard": shard})

    def start_watching(self, lost: Callable[[LogError], None]) -> None:
        """Compares the lock with what stands under its name in the background from now on, once a
        second. `lost` is called on a thread of its own, at each look that finds another file or
        none: appends fail then, and a process that answers from memory should end."""
        assert self._watch is None, "the lock is watched already"
        self._watch = Watch(self._held.presence, lost)
        self._watch.start()

    def state_file(self, name: str) -> StateFile:
        """A document beside the log. Its `write` raises LogDirectoryLostError, too."""
        return StateFile(self.path / name, self._held.presence.check)

    def start_snapshots(self, snapshots: Snapshots) -> None:
        """Writes snapshots in the background from now on."""
        assert self._snapshotter is None, "snapshots were started before"
        self._snapshotter = self._new_snapshotter(snapshots)
        self._snapshotter.start()

    def write_snapshots(self, snapshots: Snapshots) -> list[int]:
        """Writes those now that are due, and says of which shards. Raises OSError, LogError."""
        return self._new_snapshotter(snapshots).write_due()

    def start_compaction(self, compaction: Compaction) -> None:
        """Compacts in the background from now on. Best called once everything has been read."""
        assert self._cleaner is None, "compaction was started before"
        self._cleaner = self._log_cleaner(compaction)
        self._cleaner.start()

    def compact(self, compaction: Compaction) -> dict[int, Cleaned]:
        """Compacts now all that is dirty, the active segments included, which are closed for it.

        By partition, what came of it. Raises OSError or LogError: the log is whole then too, and an
        exchange of segments that has begun is finished when the directory is opened again.
        """
        assert self._cleaner is None, "compaction runs in the background already"
        for partition in self._partitions.values():
            self._writer.call(partition.roll)
        return self._log_cleaner(compaction).clean_all()

    def sync(self) -> None:
        """Makes all that was handed in before durable, under any flush policy."""
        self._writer.sync()

    def close(self) -> None:
        """Writes, syncs and closes everything, then gives up the lock. Raises the first OSError or
        LogError."""
        if not self._held.lock.held:
            return
        if self._watch is not None:
            self._watch.close()
        if self._snapshotter is not None:
            self._snapshotter.close()
        if self._cleaner is not None:
            self._cleaner.close()
        self._writer.close()
        errors: list[Failure] = []
        for partition in self._partitions.values():
            try:
                partition.close()
            except (OSError, LogError) as error:
                errors.append(error)
        self._held.lock.close()
        if errors:
            raise errors[0]

    def _new_snapshotter(self, snapshots: Snapshots) -> Snapshotter:
        loaded = self._loaded.items()
        covered = {shard: one.covered for shard, one in loaded if one.covered}
        return Snapshotter(self._partitions, self._writer, self.topic_id, snapshots, covered)

    def _log_cleaner(self, compaction: Compaction) -> LogCleaner:
        files = self._held.files()
        return LogCleaner(
            self.path, TOPIC, self._partitions, self._segment_bytes, compaction, files
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


def _check_arguments(
    partitions: int,
    segment_bytes: int,
    flush: Flush,
    flush_interval_ms: int,
    on_corruption: OnCorruption,
) -> None:
    if partitions < 1:
        raise ArgumentError("partitions", f"{partitions} is not at least 1")
    if segment_bytes < 14:
        raise ArgumentError("segment_bytes", f"{segment_bytes} is not at least 14")
    if flush not in ("commit", "interval", "os"):
        raise ArgumentError("flush", f"{flush!r} is none of commit, interval, os")
    if flush_interval_ms < 1:
        raise ArgumentError("flush_interval_ms", f"{flush_interval_ms} is not at least 1")
    if on_corruption not in ("refuse", "truncate"):
        raise ArgumentError("on_corruption", f"{on_corruption!r} is none of refuse, truncate")


def _load_all(
    names: Mapping[int, Path],
    on_corruption: OnCorruption,
    new_loader: Callable[[], Loader] | None,
    topic_id: str | None,
) -> dict[int, Loaded]:
    """Checks the partitions whose folders are there, some at a time, and refuses before anything is
    changed."""
    present = {shard: name for shard, name in names.items() if name.is_dir()}
    with ThreadPoolExecutor(_SCAN_THREADS) as pool:
        found = pool.map(lambda name: load(name, new_loader, topic_id), present.values())
        loaded = dict(zip(present, found, strict=True))
    for one in loaded.values():
        recovery.cut_in_memory(one.found, on_corruption)
        if one.lost is not None and on_corruption == "refuse":
            raise one.lost
    return loaded


def _set_snapshot_aside(directory: Path, lost: CorruptLogError) -> None:
    """So that the next start does not miss again what the operator let go."""
    aside = recovery.set_aside(directory / SNAPSHOT_FILE)
    sync_directory(directory)
    message = f"{lost.file}: offset {lost.offset}: {lost.reason}; the snapshot is kept as {aside}"
    _logger.warning(message, extra={"event": "records_missing"})
