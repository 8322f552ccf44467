"""The `__consumer_offsets-N` folders of a data directory: which are there, and which should be."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from pykcoord.errors import LogError
from pykcoord.log import checkpoint

__all__ = ["TOPIC", "missing_of", "partition_directories", "partitions_of"]

TOPIC = "__consumer_offsets"

_PARTITION_NAME = re.compile(re.escape(TOPIC) + r"-(\d+)")


def partitions_of(directory: Path) -> int:
    """How many partitions the data directory was made with; 0 if it is none. Raises LogError where
    that is not known: a wrong number would stay, and scatter the groups."""
    known = checkpoint.read_properties(directory)
    if known is not None:
        return known.partitions
    present = list(partition_directories(directory))
    if present != list(range(len(present))):
        raise LogError(
            f"{directory}: folders of {TOPIC} are missing, and nothing says how many there are; "
            "let `pykcoord serve` open it once, with offsets.topic.num.partitions set"
        )
    return len(present)


def partition_directories(directory: Path) -> dict[int, Path]:
    """The `__consumer_offsets-N` folders there, by N."""
    found: dict[int, Path] = {}
    for path in directory.iterdir():
        match = _PARTITION_NAME.fullmatch(path.name)
        if match and path.is_dir():
            found[int(match[1])] = path
    return dict(sorted(found.items()))


def missing_of(partitions: int, present: Iterable[int]) -> list[int]:
    """Which of so many partitions are not among those present."""
    return sorted(set(range(partitions)) - set(present))
