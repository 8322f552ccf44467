"""A small JSON document on disk, replaced atomically.

For what a server must remember beside the log (topics, cluster id). Never for anything that
grows with the number of groups: it is written whole at each change.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pykcoord.errors import LogError
from pykcoord.log.durable import make_directory, replacing, sync_directory

# Some 30 KiB of text.
_MEMBERS_AT_ONCE = 256


class StateFileError(LogError):
    """A state file that is not what was written there; `file` and `position` (byte) say where."""

    def __init__(self, file: Path, position: int, reason: str) -> None:
        super().__init__(
            f"{file}: byte {position}: {reason}; restore it from a copy, or delete it to begin "
            "with new topic ids"
        )
        self.file = file
        self.position = position
        self.reason = reason


class StateFile:
    """The document at `path`: `read()` and `write(document)`, which may raise OSError.

    `check` raises if the directory is not the caller's any more: it is called before and after each
    write, which does not make a directory then.
    """

    def __init__(self, path: Path | str, check: Callable[[], None] | None = None) -> None:
        self.path = Path(path)
        self._check = check

    def read(self) -> dict[str, Any] | None:
        """The document; None where there is none yet. Raises StateFileError for a damaged one."""
        if (text := self.as_written()) is None:
            return None
        try:
            document = json.loads(text)
        except UnicodeDecodeError as error:
            raise StateFileError(self.path, error.start, "not UTF-8") from error
        except json.JSONDecodeError as error:
            raise StateFileError(self.path, error.pos, error.msg) from error
        if not isinstance(document, dict):
            raise StateFileError(self.path, 0, "not a JSON object")
        return document

    def as_written(self) -> bytes | None:
        """The same as it is in the file."""
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return None

    def write(self, document: dict[str, Any]) -> None:
        """Replace the document: after a crash the old or the new one is there, whole."""
        self._replace([json.dumps(document, indent=1, sort_keys=True)])

    def write_parts(self, document: dict[str, Any], objects: Mapping[str, Iterable[str]]) -> None:
        """The same with more objects, by name, of members that are encoded already
        (`"key": value`): for what is large and changes in few places. Other threads go on
        meanwhile."""
        self._replace(_pieces(document, objects))

    def _replace(self, pieces: Iterable[str]) -> None:
        if self._check is not None:
            self._check()
        else:
            make_directory(self.path.parent)
        with replacing(self.path) as file:
            for piece in pieces:
                file.write(piece.encode())
            file.write(b"\n")
        sync_directory(self.path.parent)
        if self._check is not None:
            self._check()


def text_of_parts(document: Mapping[str, Any], objects: Mapping[str, Iterable[str]]) -> str:
    """A document with more objects, by name, of members that are encoded already."""
    return "".join(_pieces(document, objects))


def _pieces(document: Mapping[str, Any], objects: Mapping[str, Iterable[str]]) -> Iterator[str]:
    """The same, some members at a time: to put all of them together takes a millisecond, in which
    no other thread has the interpreter."""
    before = "{\n "
    for key, of in sorted(document.items()):
        yield f"{before}{json.dumps(key)}: {json.dumps(of)}"
        before = ",\n "
    for name, members in objects.items():
        yield f"{before}{json.dumps(name)}: {{\n  "
        before, left, between = ",\n ", iter(members), ""
        while some := [*itertools.islice(left, _MEMBERS_AT_ONCE)]:
            yield between + ",\n  ".join(some)
            between = ",\n  "
        yield "\n }"
    yield "\n}" if before != "{\n " else "{\n \n}"
