"""A file of JSON documents, one a line, that only grows. A line that a crash cut off is ended, so
that the next one stands by itself."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pykcoord.log import durable
from pykcoord.log.naming import naming

__all__ = ["append_lines", "read_lines"]


def append_lines(path: Path, documents: Iterable[object]) -> None:
    """Appends them, durably. Raises OSError."""
    text = "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in documents)
    with naming(path), open(path, "ab+", opener=durable.private) as file:
        if file.tell() > 0:
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                text = "\n" + text
        file.write(text.encode())
        file.flush()
        os.fsync(file.fileno())


def read_lines(path: Path) -> Iterator[Any]:
    """All documents that can be read; none where there is no file. Raises OSError."""
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return
    for line in lines:
        with contextlib.suppress(ValueError):
            yield json.loads(line)
