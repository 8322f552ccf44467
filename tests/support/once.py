"""One of several processes makes what all of them need: the suite runs in more than one."""

from __future__ import annotations

from pathlib import Path

from filelock import FileLock


def alone(directory: Path) -> FileLock:
    """To be held while `directory` is looked at and made. Waits for whoever holds it."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    return FileLock(directory.with_name(f".{directory.name}.lock"))
