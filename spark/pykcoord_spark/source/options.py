"""The options of the data source, checked. Everything wrong is found here, before a task starts."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import pyarrow as pa

from pykcoord.errors import ArgumentError
from pykcoord.log import OnCorruption

__all__ = ["Options"]

_KAFKA = "kafka."
_SERVERS = "bootstrap.servers"
# Spark passes these to a source or sink as well.
_OF_SPARK = {"checkpointlocation", "queryname", "__schema"}
_READING = {"path", "partitions", "groups", "on_corruption", "task_bytes"}
_STREAMING = {"starting_offsets", "max_records_per_trigger"}
_WRITING = {"path", "offsets_topic_partitions", "segment_bytes"}


@dataclass(frozen=True)
class Options:
    """`path`: a data directory, a `__consumer_offsets-N` folder or a segment file. `kafka`: the
    settings of librdkafka; not empty for a live cluster. `partitions`, `groups` and `columns`: only
    these; None for all. With `groups` the markers of transactions stay, which are of no group.
    `task_bytes`: what a task reads of a directory, unless one partition is more. `max_records`: of
    a micro-batch; None for all there are."""

    path: Path | None = None
    kafka: dict[str, str] = field(default_factory=dict)
    partitions: frozenset[int] | None = None
    groups: tuple[str, ...] | None = None
    columns: pa.Schema | None = None
    task_bytes: int = 32 << 20
    on_corruption: OnCorruption = "refuse"
    from_latest: bool = False
    max_records: int | None = None
    offsets_topic_partitions: int = 50
    segment_bytes: int = 104857600

    @classmethod
    def parse(
        cls, given: Mapping[str, str], *, streaming: bool = False, writing: bool = False
    ) -> Self:
        """Raises ArgumentError that names the option."""
        options = {name.lower(): value for name, value in given.items()}
        known = _WRITING if writing else _READING | (_STREAMING if streaming else set())
        kafka = {
            name.removeprefix(_KAFKA): value
            for name, value in options.items()
            if name.startswith(_KAFKA)
        }
        for name in options:
            if name not in known | _OF_SPARK and not name.startswith(_KAFKA):
                raise ArgumentError(f"option {name}", _unknown(name, known))
        path = options.get("path")
        if writing and kafka:
            name = _KAFKA + next(iter(kafka))
            raise ArgumentError(f"option {name}", "a cluster is only read; write to a directory")
        if kafka and _SERVERS not in kafka:
            raise ArgumentError(f"option {_KAFKA}{_SERVERS}", "is missing beside other kafka.*")
        if bool(kafka) == bool(path):
            both = "both are given" if path else "neither is given"
            raise ArgumentError(
                "option path", f"{both}: name a directory with load(DIR), or set {_KAFKA}{_SERVERS}"
            )
        return cls(
            path=Path(path.removeprefix("file://")) if path else None,
            kafka=kafka,
            partitions=_partitions(options.get("partitions")),
            groups=_groups(options.get("groups")),
            on_corruption=_on_corruption(options.get("on_corruption", "refuse")),
            from_latest=_from_latest(options.get("starting_offsets", "earliest")),
            max_records=_count("max_records_per_trigger", options),
            offsets_topic_partitions=_count("offsets_topic_partitions", options)
            or cls.offsets_topic_partitions,
            task_bytes=_count("task_bytes", options) or cls.task_bytes,
            segment_bytes=_count("segment_bytes", options) or cls.segment_bytes,
        )

    @property
    def decoded(self) -> list[str] | None:
        """The columns that are needed: also those that rows are chosen by. None: all."""
        if self.columns is None:
            return None
        return [*self.columns.names, *(["group_id", "kind"] if self.groups is not None else [])]

    @property
    def is_live(self) -> bool:
        return bool(self.kafka)

    def wants(self, partition: int) -> bool:
        return self.partitions is None or partition in self.partitions


def _unknown(name: str, known: set[str]) -> str:
    near = difflib.get_close_matches(name, known, 1)
    return f"is unknown; did you mean {near[0]}?" if near else f"is unknown; {sorted(known)} are"


def _partitions(text: str | None) -> frozenset[int] | None:
    if text is None:
        return None
    chosen: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        last = last if dash else first
        if not first.isdecimal() or not last.isdecimal() or int(last) < int(first):
            raise ArgumentError("option partitions", f"{text!r} is not of the form 3,7 or 0-9")
        chosen.update(range(int(first), int(last) + 1))
    return frozenset(chosen)


def _groups(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(group.strip() for group in text.split(","))


def _on_corruption(text: str) -> OnCorruption:
    if text == "refuse":
        return "refuse"
    if text == "truncate":
        return "truncate"
    raise ArgumentError("option on_corruption", f"{text!r} is neither refuse nor truncate")


def _from_latest(text: str) -> bool:
    if text not in ("earliest", "latest"):
        raise ArgumentError("option starting_offsets", f"{text!r} is neither earliest nor latest")
    return text == "latest"


def _count(name: str, options: Mapping[str, str]) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    if not text.isdecimal() or int(text) == 0:
        raise ArgumentError(f"option {name}", f"{text!r} is not a number from 1 on")
    return int(text)
