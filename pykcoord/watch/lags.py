"""What a watcher noticed of lag, beside the copy of the log, which does not tell of it."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

from pykcoord.events import Event
from pykcoord.explain.story import event_fields
from pykcoord.log.lines import append_lines, read_lines

__all__ = ["keep_lags", "kept_lags"]

_FILE, _OLDER = "lags.jsonl", "lags.1.jsonl"
_MOST_BYTES = 1 << 20


def keep_lags(directory: Path, events: Sequence[Event]) -> None:
    """Append events; the newest 1 to 2 MiB stay. Raises OSError."""
    if not events:
        return
    path = directory / _FILE
    if path.exists() and path.stat().st_size > _MOST_BYTES:
        path.replace(directory / _OLDER)
    append_lines(path, [{"group_id": one.group_id, **event_fields(one)} for one in events])


def kept_lags(directory: Path) -> list[Event]:
    """What is kept, the oldest first; what cannot be read is left out. Raises OSError."""
    found: list[Event] = []
    for name in (_OLDER, _FILE):
        for document in read_lines(directory / name):
            with contextlib.suppress(KeyError, TypeError, AttributeError):
                found.append(Event.of_json(document))
    return found
