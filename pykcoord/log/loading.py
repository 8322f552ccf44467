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
from pykcoord.log.protocol import Loader
from pykcoord.log.recovery import Found
from pykcoord.log.segment import plan
from pykcoord.log.snapshot import Covered, SnapshotError

__all__ = ["Loaded", "load"]

_logger = logging.getLogger(__name__)


class Loaded(NamedTuple):
    """A partition on disk, and its state where one was asked for. `covered`: by a snapshot. `lost`:
    a snapshot knows of records that are not in the log any more."""

    found: Found
    loader: Loader | None = None
    covered: Covered | None = None
    lost: CorruptLogError | None = None


def load(
    directory: Path,
    new_loader: Callable[[], Loader] | None,
    topic_id: str | None,
) -> Loaded:
    """Examines a partition and replays what is sound of it. `topic_id` is that of the directory,
    in hex; None: a snapshot is not looked at.

    Raises CorruptLogError for batches that cannot be expanded, OSError, and what `replay` raises.
    """
    if new_loader is None:
        return Loaded(recovery.examine(directory))
    if topic_id is not None:
        try:
            return _from_snapshot(directory, new_loader(), topic_id)
        except FileNotFoundError:
            pass
        except SnapshotError as error:
            _logger.warning("%s", error, extra={"event": "snapshot_ignored"})
    loader = new_loader()
    found = recovery.examine(directory, loader.replay)
    lost = _missing(found, topic_id) if topic_id is not None else None
    return Loaded(found, loader, lost=lost)


def _missing(found: Found, topic_id: str) -> CorruptLogError | None:
    """Of a log whose snapshot was not used."""
    try:
        covered = snapshot.read_covered(found.directory)
    except (FileNotFoundError, SnapshotError):
        return None
    if covered.topic_id != topic_id:
        return None
    return recovery.missing(found.end, found.next_offset, covered)


def _from_snapshot(directory: Path, loader: Loader, topic_id: str) -> Loaded:
    covered = snapshot.read_covered(directory)
    snapshot.check(directory, covered, plan(directory), topic_id)
    try:
        for chunk in snapshot.chunks(directory):
            loader.restore(chunk)
        found = recovery.examine(directory, loader.replay, covered)
    except ValueError as error:
        # The core's ReplayError. If the log itself cannot be replayed, reading that will show it.
        reason = f"its state cannot be used ({error})"
        raise SnapshotError(directory / snapshot.SNAPSHOT_FILE, reason) from error
    return Loaded(found, loader, covered)
