"""Which groups have much of which full segment of the log of events, so that no group puts out what
happened to the others: those that have little of each cannot.

Beside each segment, `N.shares` says it again for the next start: JSON, hex of the group id to
bytes. Where it is missing or unreadable, nothing is known of that segment.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from pykcoord.log.durable import private

__all__ = ["EventShares"]

# Of what a group may have: so much in one segment is much.
_MUCH = 256


class EventShares:
    """Of the segments in `folder` that begin at `bases`. `group_bytes`: what one group may have in
    all of them. Without a folder nothing is written. Raises OSError where it writes."""

    def __init__(self, folder: Path | None, bases: Iterable[int], group_bytes: int) -> None:
        self._folder = folder
        self._much = max(1, group_bytes // _MUCH)
        self._by_base: dict[int, dict[bytes, int]] = {}
        if folder is not None:
            known = {base: _read(folder / _name(base)) for base in bases}
            self._by_base = {base: of for base, of in known.items() if of}

    def put(self, base: int, sizes: Mapping[bytes, int]) -> list[bytes]:
        """A segment is full: the bytes of each group in it. Those that have much of it."""
        much = {key: size for key, size in sizes.items() if key and size >= self._much}
        if much:
            self._by_base[base] = much
            self._write(base)
        return list(much)

    def to_cut(self, key: bytes, most: int) -> Iterator[tuple[int, int]]:
        """Segments in which a group has to have less, so that it has `most` in all of them: the
        oldest first, each with what may stay."""
        held = {base: of[key] for base, of in sorted(self._by_base.items()) if key in of}
        over = sum(held.values()) - most
        for base, size in held.items():
            if over <= 0:
                return
            yield base, max(0, size - over)
            over -= size

    def cut(self, base: int, key: bytes, left: int) -> None:
        """It was done."""
        of = self._by_base[base]
        of[key] = left
        if left < self._much:
            del of[key]
        self._write(base)

    def forget(self, base: int) -> None:
        """The segment is gone."""
        self._by_base.pop(base, None)
        if self._folder is not None:
            (self._folder / _name(base)).unlink(missing_ok=True)

    def _write(self, base: int) -> None:
        if self._folder is None:
            return
        texts = {key.hex(): size for key, size in self._by_base[base].items()}
        with open(self._folder / _name(base), "w", opener=private) as file:
            json.dump(texts, file)


def _name(base: int) -> str:
    return f"{base:020}.shares"


def _read(path: Path) -> dict[bytes, int]:
    try:
        return {bytes.fromhex(key): int(of) for key, of in json.loads(path.read_bytes()).items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
