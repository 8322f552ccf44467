"""Errors of the disk with the name of the file: the system gives none where a descriptor failed."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

__all__ = ["naming"]


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """An OSError that leaves the block says `path`, unless it names a file already."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = os.fspath(path)
        raise
