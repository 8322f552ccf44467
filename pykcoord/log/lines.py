"""A file of JSON documents, one a line, that only grows. A line that a crash cut off is ended, so
that the next one stands by itself."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

from pykcoord.log import durable
from pykcoord.log.naming import naming

__all__ = ["append_lines"]


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
