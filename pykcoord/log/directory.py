"""A directory of `__consumer_offsets` partitions, open for writing: the `Log` of the runtime.

One process at a time: a lock while it lives, a leader epoch against all that the lock does not
see. Must never create, cut or rename anything before it holds the lock.
"""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

from pykcoord.errors import ArgumentError, ConfigError, CorruptLogError, LogError
from pykcoord.log import checkpoint, recovery
from pykcoord.log.checkpoint import Properties
from pykcoord.log.compaction import Cleaned, Compaction, LogCleaner
from pykcoord.log.compaction.files import Files
from pykcoord.log.durable import make_directory, new_directory, sync_directory
from pykcoord.log.loading import Loaded, load
from pykcoord.log.lock import DirectoryLock
from pykcoord.log.partition import Partition
from pykcoord.log.presence import Presence, Watch
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

__all__ = ["TOPIC", "LogDirectory", "missing_of", "partition_directories", "partitions_of"]

_logger = logging.getLogger(__name__)

TOPIC = "__consumer_offsets"

_PARTITION_NAME = re.compile(re.escape(TOPIC) + r"-(\d+)")
_SCAN_THREADS = 4


class LogDirectory:
    """The log of one coordinator, in Kafka's layout. Made by `open`; see `Log` for the methods."""

    def __init__(
        self,
        path: Path,
        lock: DirectoryLock,
        presence: Presence,
        partitions: list[Partition],
        properties: Properties,
        writer: Writer,
        segment_bytes: int,
    ) -> None:
        self.path = path
        self.leader_epoch = properties.leader_epoch
        self.topic_id = properties.topic_id
        self.cuts: list[Cut] = [p.cut for p in partitions if p.cut is not None]
        self._lock = lock
        self._presence = presence
        self._watch: Watch | None = None
        self._partitions = partitions
        self._writer = writer
        self._loaded: list[Loaded | None] = [None] * len(partitions)
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
    ) -> Self:
        """Locks, recovers and opens the directory; creates what is missing of it.

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
        make_directory(directory)
        lock = DirectoryLock.take(directory)
        opened: list[Partition] = []
        try:
            presence = Presence(directory, lock.descriptor)
            presence.check()
            known = checkpoint.read_properties(directory)
            _check_partitions(directory, partitions, known)
            names = [directory / f"{TOPIC}-{number}" for number in range(partitions)]
            topic_id = known.topic_id if known else uuid.uuid4().bytes
            expected = topic_id.hex() if use_snapshots else None
            loaded = _load_all(names, on_corruption, new_loader, expected)
            found = [one and one.found for one in loaded]
            newest = max((one.leader_epoch for one in found if one is not None), default=-1)
            epoch = max(newest, known.leader_epoch if known else -1) + 1
            if epoch > 2**31 - 1:
                reason = "a leader epoch of 2^31-1 cannot be raised"
                raise CorruptLogError(directory, 0, -1, reason, recovery.ADVICE)
            properties = Properties(partitions, epoch, topic_id)
            _prepare(directory, names, properties)
            for shard in loaded:
                if shard is not None and shard.lost is not None:
                    _set_snapshot_aside(shard.found.directory, shard.lost)
            for name, one in zip(names, found, strict=True):
                partition = Partition(
                    name,
                    topic_id=topic_id,
                    segment_bytes=segment_bytes,
                    keep_unsynced=flush != "commit",
                    on_corruption=on_corruption,
                    found=one,
                    presence=presence,
                )
                partition.leader_epoch = epoch
                opened.append(partition)
            writer = Writer(opened, flush, flush_interval_ms, observer, monotonic, presence)
            log = cls(directory, lock, presence, opened, properties, writer, segment_bytes)
            log._loaded = loaded
            return log
        except BaseException:
            for partition in opened:
                partition.close()
            lock.close()
            raise

    @property
    def shards(self) -> int:
        """The number of partitions."""
        return len(self._partitions)

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments of all partitions. May be asked on any thread."""
        return sum(partition.size_bytes for partition in self._partitions)

    def take(self, shard: int, new_loader: Callable[[], Any]) -> Taken:
        """See `Log.take`. The directory was locked when it was opened, and no other process writes
        there. The first time the loader is the one that was read then, if there is one."""
        self.reopen(shard)
        loaded = self._loaded[shard]
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
        self._watch = Watch(self._presence, lost)
        self._watch.start()

    def state_file(self, name: str) -> StateFile:
        """A document beside the log. Its `write` raises LogDirectoryLostError, too."""
        return StateFile(self.path / name, self._presence.check)

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
        for partition in self._partitions:
            self._writer.call(partition.roll)
        return self._log_cleaner(compaction).clean_all()

    def sync(self) -> None:
        """Makes all that was handed in before durable, under any flush policy."""
        self._writer.sync()

    def close(self) -> None:
        """Writes, syncs and closes everything, then gives up the lock. Raises the first OSError or
        LogError."""
        if not self._lock.held:
            return
        if self._watch is not None:
            self._watch.close()
        if self._snapshotter is not None:
            self._snapshotter.close()
        if self._cleaner is not None:
            self._cleaner.close()
        self._writer.close()
        errors: list[Failure] = []
        for partition in self._partitions:
            try:
                partition.close()
            except (OSError, LogError) as error:
                errors.append(error)
        self._lock.close()
        if errors:
            raise errors[0]

    def _new_snapshotter(self, snapshots: Snapshots) -> Snapshotter:
        loaded = enumerate(self._loaded)
        covered = {shard: one.covered for shard, one in loaded if one and one.covered}
        return Snapshotter(self._partitions, self._writer, self.topic_id, snapshots, covered)

    def _log_cleaner(self, compaction: Compaction) -> LogCleaner:
        files = Files(self._presence.check)
        return LogCleaner(
            self.path, TOPIC, self._partitions, self._segment_bytes, compaction, files
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


def partitions_of(directory: Path) -> int:
    """How many partitions the data directory was made with; 0 if it is none. Raises LogError where
    that is not known: a wrong number would stay, and scatter the groups."""
    known = checkpoint.read_properties(directory)
    if known is not None:
        return known.partitions
    present = list(partition_directories(directory))
    if present != list(range(len(present))):
        raise LogError(
            f"{directory}: folders of {TOPIC} are missing, and nothing says how many there are; "
            "let `pykcoord serve` open it once, with offsets.topic.num.partitions set"
        )
    return len(present)


def partition_directories(directory: Path) -> dict[int, Path]:
    """The `__consumer_offsets-N` folders there, by N."""
    found: dict[int, Path] = {}
    for path in directory.iterdir():
        match = _PARTITION_NAME.fullmatch(path.name)
        if match and path.is_dir():
            found[int(match[1])] = path
    return dict(sorted(found.items()))


def missing_of(partitions: int, present: Iterable[int]) -> list[int]:
    """Which of so many partitions are not among those present."""
    return sorted(set(range(partitions)) - set(present))


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


def _check_partitions(directory: Path, partitions: int, known: Properties | None) -> None:
    """A group's partition is its hash modulo their number: another number would scatter groups, and
    a folder that is not there would take its groups with it, unnoticed."""
    present = list(partition_directories(directory))
    if known is not None:
        made_with = known.partitions
    elif present and (present[-1] >= partitions or present == list(range(len(present)))):
        # A Kafka directory. One that lacks some partitions may have had any number above.
        made_with = present[-1] + 1
    else:
        made_with = partitions
    if made_with != partitions:
        raise ConfigError(
            "offsets.topic.num.partitions",
            f"{directory} was made with {made_with} partitions, not {partitions}; "
            f"set it to {made_with}, or use another directory",
        )
    if present and present[-1] >= partitions:
        raise ConfigError(
            "offsets.topic.num.partitions",
            f"{directory / f'{TOPIC}-{present[-1]}'} is beyond the {partitions} partitions that "
            "this directory was made with: its groups would be lost; move the folder away, or "
            "bring its groups in with `pykcoord log import`",
        )
    missing = missing_of(partitions, present)
    if missing and known is not None and known.is_whole:
        more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        raise LogError(
            f"{directory / f'{TOPIC}-{missing[0]}'} is missing{more}, and its groups with it: "
            "bring the folder back from a copy; to go on without its groups, make an empty folder "
            "of that name"
        )
    if missing and known is None and present:
        _logger.warning(
            "%s has no folder for %d of %d partitions: their groups are not known here; a broker "
            "of several has only some of the folders, so copy those of the others as well",
            directory,
            len(missing),
            partitions,
            extra={"event": "folders_missing"},
        )


def _load_all(
    names: list[Path],
    on_corruption: OnCorruption,
    new_loader: Callable[[], Loader] | None,
    topic_id: str | None,
) -> list[Loaded | None]:
    """Checks all partitions, some at a time, and refuses before anything is changed."""

    def examine(name: Path) -> Loaded | None:
        return load(name, new_loader, topic_id) if name.is_dir() else None

    with ThreadPoolExecutor(_SCAN_THREADS) as pool:
        loaded = list(pool.map(examine, names))
    for one in loaded:
        if one is not None:
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


def _prepare(directory: Path, names: list[Path], properties: Properties) -> None:
    # A Kafka broker that finds its mark of a clean stop would believe its indexes unseen.
    (directory / ".kafka_cleanshutdown").unlink(missing_ok=True)
    # Before the folders: who finds some of them and no properties takes their number for the whole.
    missing = [name for name in names if not name.is_dir()]
    checkpoint.write_properties(directory, properties._replace(is_whole=not missing))
    if missing:
        for name in missing:
            new_directory(name)
        sync_directory(directory)
        checkpoint.write_properties(directory, properties._replace(is_whole=True))
