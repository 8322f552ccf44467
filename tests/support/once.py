"""One of several processes makes what all of them need: the suite runs in more than one."""

from __future__ import annotations

from pathlib import Path

from filelock import FileLock


def alone(directory: Path) -> FileLock:
    """A lock to be held while `directory` is checked and made. Waits for its holder."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    return FileLock(directory.with_name(f".{directory.name}.lock"))
