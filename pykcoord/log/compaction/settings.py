"""The settings of compaction: when and how much to clean, by what, and what time it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

__all__ = ["Compaction", "NewCleaner", "RecordCleaner"]


class RecordCleaner(Protocol):
    """The pure half: whole, checked, uncompressed batches in, those that stay out.

    One object per cleaning. The batches of a partition are shown to it three times, in order; it
    raises ValueError for what it cannot read. Give up the interpreter's lock meanwhile.
    """

    def observe(self, chunk: bytes) -> None:
        """First pass, for transactions: what has no producer need not be shown."""

    @property
    def first_undecided_offset(self) -> int | None:
        """The first offset of a transaction that has no marker yet."""

    def start_index(self, first_dirty_offset: int, bound: int) -> None:
        """Ends the first pass: the keys from `first_dirty_offset` up to `bound` will follow."""

    def index(self, chunk: bytes) -> bool:
        """Second pass, over the dirty part. False: there is no memory for more keys."""

    def finish_index(self) -> None:
        """All up to the bound was indexed."""

    @property
    def end_offset(self) -> int:
        """The first offset that is not indexed: what is below is clean afterwards."""

    def clean(self, chunk: bytes, retained_end: int) -> bytes:
        """Third pass, over all: the batches that stay. The one that ends before `retained_end`
        always does, if only as a header."""

    @property
    def records(self) -> tuple[int, int]:
        """How many records the third pass saw, and how many stayed."""


NewCleaner = Callable[[int, int, int], RecordCleaner]
"""`new_cleaner(dedupe_buffer_bytes, now_ms, delete_retention_ms)`."""


@dataclass(frozen=True, kw_only=True)
class Compaction:
    """How to compact. Settings are Kafka's `log.cleaner.*`; their defaults are Kafka's.

    `now_ms` is the time since the epoch, `monotonic` in seconds; both are called on the cleaner's
    thread. A partition is cleaned when more than `min_cleanable_ratio` (0 to 1) of it is dirty.
    Every `backoff_ms` they are looked at. `new_cleaner` makes what cleans; it may use
    `dedupe_buffer_bytes` of memory for keys. `delete_retention_ms`: how long a tombstone stays.
    `min_compaction_lag_ms`: how old a record must be. `io_max_bytes_per_second`: read and written.
    `history_retention_ms`: how long segments are kept that were replaced (pykcoord's own); 0: not.
    """

    new_cleaner: NewCleaner
    now_ms: Callable[[], int]
    monotonic: Callable[[], float]
    backoff_ms: int = 15_000
    dedupe_buffer_bytes: int = 134_217_728
    delete_retention_ms: int = 86_400_000
    io_max_bytes_per_second: float = float("inf")
    min_cleanable_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    history_retention_ms: int = 0
