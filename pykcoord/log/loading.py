"""Reading a partition at a start: every byte that is read is read once, checked, and handed on.

With a snapshot that fits the files, the log is read from its offset on; what stands below was
checked when it was written. Changes nothing on disk.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from pykcoord.errors import CorruptLogError
from pykcoord.log import recovery, snapshot
from pykcoord.log.protocol import Replica
from pykcoord.log.recovery import Found
from pykcoord.log.segment import plan
from pykcoord.log.snapshot import Covered, SnapshotError

__all__ = ["Loaded", "load"]

_logger = logging.getLogger(__name__)


class Loaded(NamedTuple):
    """A partition on disk, and its state where one was asked for. `covered`: by a snapshot. `lost`:
    a snapshot knows of records that are not in the log any more."""

    found: Found
    replica: Replica | None = None
    covered: Covered | None = None
    lost: CorruptLogError | None = None


def load(
    directory: Path,
    new_replica: Callable[[], Replica] | None,
    topic_id: str | None,
) -> Loaded:
    """Examines a partition and replays what is sound of it. `topic_id` is that of the directory,
    in hex; None: a snapshot is not looked at.

    Raises CorruptLogError for batches that cannot be expanded, OSError, and what `replay` raises.
    """
    if new_replica is None:
        return Loaded(recovery.examine(directory))
    if topic_id is not None:
        try:
            return _from_snapshot(directory, new_replica(), topic_id)
        except FileNotFoundError:
            pass
        except SnapshotError as error:
            _logger.warning("%s", error, extra={"event": "snapshot_ignored"})
    replica = new_replica()
    found = recovery.examine(directory, replica.replay)
    lost = _missing(found, topic_id) if topic_id is not None else None
    return Loaded(found, replica, lost=lost)


def _missing(found: Found, topic_id: str) -> CorruptLogError | None:
    """Of a log whose snapshot was not used."""
    try:
        covered = snapshot.read_covered(found.directory)
    except (FileNotFoundError, SnapshotError):
        return None
    if covered.topic_id != topic_id:
        return None
    return recovery.missing(found.end, found.next_offset, covered)


def _from_snapshot(directory: Path, replica: Replica, topic_id: str) -> Loaded:
    covered = snapshot.read_covered(directory)
    snapshot.check(directory, covered, plan(directory), topic_id)
    try:
        for chunk in snapshot.chunks(directory):
            replica.restore(chunk)
        found = recovery.examine(directory, replica.replay, covered)
    except ValueError as error:
        # The core's ReplayError. If it is the log that cannot be replayed, the log will tell.
        reason = f"its state cannot be used ({error})"
        raise SnapshotError(directory / snapshot.SNAPSHOT_FILE, reason) from error
    return Loaded(found, replica, covered)
