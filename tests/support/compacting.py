"""For the tests of compaction: a log made of given segments, its state by an independent model, and
a cleaner for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pykcoord._native import Cleaner
from pykcoord.log import Compaction, LogReader
from pykcoord.log.compaction import LogCleaner
from pykcoord.log.compaction.files import Files
from pykcoord.log.folders import TOPIC
from pykcoord.log.partition import Partition
from support.batches import COMMIT, CONTROL, TRANSACTIONAL, Batch, Record, decode

DAY_MS = 86_400_000
NOW_MS = 1_700_000_000_000
HASH_KEY = bytes(range(16))


@dataclass
class Meaning:
    """The state for a reader of the whole log: the last decided value of each key with its offset,
    pending records by producer, and the end of the log."""

    values: dict[bytes, tuple[int, bytes]] = field(default_factory=dict)
    pending: dict[int, dict[bytes, bytes | None]] = field(default_factory=dict)
    next_offset: int = 0


def meaning(batches: Sequence[Batch]) -> Meaning:
    last: dict[bytes, Record] = {}
    open_: dict[int, list[Record]] = {}

    def take(records: Sequence[Record]) -> None:
        for record in records:
            assert record.key is not None
            if record.key not in last or last[record.key].offset < record.offset:
                last[record.key] = record

    next_offset = 0
    for batch in batches:
        assert batch.base_offset >= next_offset
        next_offset = batch.last_offset + 1
        if batch.attributes & CONTROL:
            ended = open_.pop(batch.producer_id, [])
            if batch.records and batch.records[0].key == bytes([0, 0, 0, COMMIT]):
                take(ended)
        elif batch.attributes & TRANSACTIONAL:
            open_.setdefault(batch.producer_id, []).extend(batch.records)
        else:
            take(batch.records)
    values = {key: (one.offset, one.value) for key, one in last.items() if one.value is not None}
    pending = {
        producer: {one.key: one.value for one in records if one.key is not None}
        for producer, records in open_.items()
        if records
    }
    return Meaning(values, pending, next_offset)


def write_log(root: Path, segments: Sequence[Sequence[Batch]]) -> Path:
    """A data directory of one partition; the last segment is the one to be written on."""
    folder = root / f"{TOPIC}-0"
    folder.mkdir(parents=True)
    next_offset = 0
    for batches in segments:
        base_offset = batches[0].base_offset if batches else next_offset
        path = folder / f"{base_offset:020d}.log"
        path.write_bytes(b"".join(batch.encode() for batch in batches))
        next_offset = batches[-1].last_offset + 1 if batches else next_offset
    return root


def read_log(root: Path) -> list[Batch]:
    return list(decode(LogReader.open(root).read(0)))


def compaction(now_ms: int = NOW_MS, buffer_bytes: int = 1 << 20, **settings: Any) -> Compaction:
    made = Compaction(
        new_cleaner=lambda _, now_ms, retention_ms: Cleaner(
            HASH_KEY, buffer_bytes, now_ms, retention_ms
        ),
        now_ms=lambda: now_ms,
        monotonic=lambda: 0.0,
    )
    return replace(made, **settings)


def partition(root: Path, segment_bytes: int = 1 << 20, number: int = 0) -> Partition:
    return Partition(
        root / f"{TOPIC}-{number}",
        topic_id=bytes(16),
        segment_bytes=segment_bytes,
        keep_unsynced=False,
        on_corruption="refuse",
    )


def compact(
    root: Path,
    how: Compaction | None = None,
    *,
    segment_bytes: int = 1 << 20,
    files: Files | None = None,
) -> LogCleaner:
    """Cleans all that is dirty, but for the last segment."""
    opened = partition(root, segment_bytes)
    try:
        cleaner = LogCleaner(root, TOPIC, {0: opened}, segment_bytes, how or compaction(), files)
        cleaner.clean_all()
        return cleaner
    finally:
        opened.close()


def compact_all(root: Path, *, with_active: bool = False) -> None:
    """Cleans every partition of a log, and what it was last written to, too, if asked."""
    for number in LogReader.open(root).partitions:
        opened = partition(root, number=number)
        try:
            if with_active:
                opened.roll()
            LogCleaner(root, f"{TOPIC}-{number}", {0: opened}, 1 << 20, compaction()).clean_all()
        finally:
            opened.close()
