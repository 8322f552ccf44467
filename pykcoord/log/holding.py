"""Holding a data directory: its lock, and what is one for all of its partitions.

One process holds it and writes all of them. Or one holds it (`Holding`) for others that write some
each (`Part`): then the first alone writes `pykcoord.properties` and `cleaner-offset-checkpoint`,
and raises the leader epoch each time that another begins to write. Nothing is made or changed
before `begin`, but for the directory itself and its `.lock`.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

from pykcoord.errors import ConfigError, CorruptLogError, LogError
from pykcoord.log import checkpoint, recovery
from pykcoord.log.checkpoint import Properties
from pykcoord.log.compaction.files import Files
from pykcoord.log.durable import new_directory, sync_directory
from pykcoord.log.folders import TOPIC, missing_of, partition_directories
from pykcoord.log.lock import DirectoryLock, locked
from pykcoord.log.presence import Presence
from pykcoord.log.replicas import NODE_FILE
from pykcoord.log.shared.rounds import entry_name
from pykcoord.log.state_file import StateFile

__all__ = ["Held", "HeldPart", "Holding", "Part"]

_logger = logging.getLogger(__name__)

_LARGEST_EPOCH = 2**31 - 1


@dataclass(frozen=True)
class Part:
    """The partitions (`shards`) of a directory that this process writes, while another holds it.

    `lock_descriptor` is the `.lock` that the other locked, inherited. `begin(newest_epoch)` is
    called once, when these partitions were read and before any of them is changed, with the
    highest leader epoch in them, -1 for none; it may wait, and returns under what they are
    written. `cleaned(offsets)` is told how far partitions are compacted, by number.
    """

    shards: Sequence[int]
    lock_descriptor: int
    begin: Callable[[int], Properties]
    cleaned: Callable[[Mapping[int, int]], None]


class Held(Protocol):
    """A directory as the log that is written there needs it."""

    lock: DirectoryLock
    presence: Presence
    shards: Sequence[int]
    """The partitions that are written here."""

    @property
    def topic_id(self) -> bytes | None:
        """That of `__consumer_offsets`, as far as it is known."""

    def begin(self, newest_epoch: int) -> Properties:
        """See `Part.begin`. All folders are there afterwards."""

    def files(self) -> Files:
        """How compaction changes files."""


class Holding:
    """A directory that this process has locked. Made by `take`; thread-safe."""

    def __init__(self, directory: Path, partitions: int, lock: DirectoryLock) -> None:
        self.directory = directory
        self.lock = lock
        self.presence = Presence(directory, lock.descriptor)
        self.presence.check()
        self.shards: Sequence[int] = range(partitions)
        self._known = checkpoint.read_properties(directory)
        self._has_begun = False
        self._changing = threading.Lock()
        _check_partitions(directory, partitions, self._known)

    @classmethod
    def take(cls, directory: Path, partitions: int, *, kept_by_children: bool = False) -> Self:
        """Locks the directory, an absolute path, which is made if it is missing. With
        `kept_by_children` programs that inherit `lock.descriptor` hold it, too.

        Raises LogLockedError, ConfigError for another number of partitions than it was made with,
        CorruptLogError, LogError where folders are missing or it is of another kind, and OSError.
        """
        _check_kind(directory)
        return locked(
            directory,
            lambda directory, lock: cls(directory, partitions, lock),
            kept_by_children=kept_by_children,
        )

    @property
    def topic_id(self) -> bytes | None:
        """That of `__consumer_offsets`, 16 bytes; None before the first `begin` of all."""
        return None if self._known is None else self._known.topic_id

    def begin(self, newest_epoch: int) -> Properties:
        """Raises the leader epoch above `newest_epoch` and all that were given before, durably,
        and makes the folders that are missing, the first time. Raises CorruptLogError, LogError,
        OSError."""
        with self._changing:
            known = self._known
            if self._has_begun:  # a folder that went since would be made anew, and be empty
                _check_partitions(self.directory, len(self.shards), known)
            epoch = max(newest_epoch, known.leader_epoch if known else -1) + 1
            if epoch > _LARGEST_EPOCH:
                reason = "a leader epoch of 2^31-1 cannot be raised"
                raise CorruptLogError(self.directory, 0, -1, reason, recovery.ADVICE)
            topic_id = known.topic_id if known else uuid.uuid4().bytes
            self._known = Properties(len(self.shards), epoch, topic_id)
            names = [self.directory / f"{TOPIC}-{number}" for number in self.shards]
            self.presence.check()
            _prepare(self.directory, names, self._known)
            self._known, self._has_begun = self._known._replace(is_whole=True), True
            return self._known

    def files(self) -> Files:
        """How compaction changes files."""
        return Files(self.presence.check)

    def cleaned(self, offsets: Mapping[int, int]) -> None:
        """Takes down how far some partitions are compacted; what is known of others stays. Raises
        OSError, LogError."""
        with self._changing:
            known = checkpoint.read_cleaner_offsets(self.directory, TOPIC)
            self.files().write_cleaner_offsets(self.directory, TOPIC, {**known, **offsets})

    def state_file(self, name: str) -> StateFile:
        """A document beside the log. Its `write` raises LogDirectoryLostError, too."""
        return StateFile(self.directory / name, self.presence.check)

    def close(self) -> None:
        """Gives the directory up; who inherited the lock holds it on."""
        self.lock.close()


def _check_kind(directory: Path) -> None:
    """A folder of a cluster would look empty. A node of a Kafka cluster deletes what brokers do not
    give it."""
    if (directory / entry_name(0)).exists():
        raise LogError(
            f"{directory}: the folder of a cluster; serve it with --cluster {directory}, or name "
            "another directory"
        )
    if (directory / NODE_FILE).exists():
        raise LogError(
            f"{directory}: the directory of a node of a Kafka cluster; serve it with --kafka "
            "HOST:PORT --as node, or name another one"
        )


class HeldPart:
    """Some partitions of a directory that another process holds; see `Held`."""

    def __init__(self, directory: Path, partitions: int, part: Part) -> None:
        known = checkpoint.read_properties(directory)
        self.topic_id: bytes | None = None if known is None else known.topic_id
        self.shards = part.shards
        assert all(0 <= shard < partitions for shard in part.shards), part.shards
        self._part = part
        self.lock = DirectoryLock.inherited(directory, part.lock_descriptor)
        try:
            self.presence = Presence(directory, self.lock.descriptor)
            self.presence.check()
        except BaseException:
            self.lock.close()
            raise

    def begin(self, newest_epoch: int) -> Properties:
        """See `Part.begin`."""
        properties = self._part.begin(newest_epoch)
        assert properties.leader_epoch > newest_epoch, (properties, newest_epoch)
        return properties

    def files(self) -> Files:
        """How compaction changes files."""
        return _PartFiles(self.presence.check, self._part.cleaned)


class _PartFiles(Files):
    """The checkpoint of the cleaner is one file for all partitions: who holds them writes it."""

    def __init__(
        self, check: Callable[[], None], cleaned: Callable[[Mapping[int, int]], None]
    ) -> None:
        super().__init__(check)
        self._cleaned = cleaned

    def write_cleaner_offsets(self, directory: Path, topic: str, offsets: dict[int, int]) -> None:
        """Has it written."""
        self._cleaned(offsets)


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
