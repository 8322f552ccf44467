"""The past of one group's offsets, as the commands of `pykcoord offsets` read it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from pykcoord.cli.opening import opened
from pykcoord.cli.plain import time_text
from pykcoord.errors import LogError
from pykcoord.log import LogReader, OnCorruption, Past
from pykcoord.offset_history import Change, Offsets, changes, offsets_at
from pykcoord.records import partition_of
from pykcoord.transfer import readable

__all__ = ["GroupPast", "group_argument", "likely", "past_of", "path_argument"]

group_argument = click.argument("group_id", metavar="GROUP")
path_argument = click.argument("path", metavar="PATH", type=click.Path(exists=True, path_type=Path))


@dataclass(frozen=True)
class GroupPast:
    """All changes of a group's offsets that the log at `path` knows. `complete_since_ms`: from then
    on none is missing; None: none is at all."""

    group_id: str
    path: Path
    changes: list[Change]
    complete_since_ms: int | None

    def at(self, at_ms: int | None) -> Offsets:
        """The offsets of that time (ms since the epoch), or of the end of the log. A line on stderr
        says where some may be missing."""
        if at_ms is not None and at_ms < (self.complete_since_ms or 0):
            click.echo(
                f"pykcoord: offsets of {time_text(at_ms)} may be missing: compaction removed "
                f"records that were replaced before {time_text(self.complete_since_ms or 0)}; "
                "offsets.history.retention.ms keeps those to come",
                err=True,
            )
        return offsets_at(self.changes, at_ms)

    def changed(self, until_ms: int | None) -> dict[tuple[str, int], int]:
        """When each offset was changed last, up to that time (ms; None: the end), in ms."""
        return {
            (one.topic, one.partition): one.at_ms
            for one in self.changes
            if until_ms is None or one.at_ms <= until_ms
        }


def past_of(group_id: str, path: Path, on_corruption: OnCorruption) -> GroupPast:
    """Reads it. Raises LogError where the log knows no offset of the group, and as LogReader."""
    reader = opened(path, on_corruption)
    for partition in likely(reader, group_id):
        past = Past(reader, partition)
        with readable(partition):
            found = list(changes(past.read(), group_id))
        if found:
            return GroupPast(group_id, path, found, past.complete_since_ms)
    raise LogError(
        f"{path}: no offset of group {group_id!r} in this log, nor one that it had before; "
        "`pykcoord log state` lists the groups"
    )


def likely(reader: LogReader, group_id: str) -> Iterator[int]:
    """The partition of the group first: the number of partitions may be another than the folders
    show, as where a broker has some of them only."""
    first = partition_of(group_id, reader.shards)
    if first in reader.partitions:
        yield first
    yield from (partition for partition in reader.partitions if partition != first)
