"""The producers that wrote to a partition in transactions: what of theirs is open, and what was
aborted. As Kafka's ProducerStateManager, of which a leader of `__consumer_offsets` needs no more:
coordinators do not check sequence numbers. Pure: batches go in.
"""

from __future__ import annotations

import bisect
import struct
from collections import deque
from dataclasses import dataclass

from pykcoord.log._record_batch import transactional
from pykcoord.log.protocol import Append

__all__ = ["Producer", "Producers"]

_HEADER_BYTES = 61
_CONTROL = 0x20
_ABORT = 0
# Of a marker's record: its key of 4 bytes behind five varints of one byte each, its value behind
# one more. See docs/spec/log-format.md section 2.
_MARKER = struct.Struct(">5xhhxhi")
# producer.id.expiration.ms: a producer that has nothing open is forgotten after that silence.
_EXPIRES_MS = 86_400_000


@dataclass(slots=True)
class Producer:
    """What DescribeProducers tells of one. -1: nothing yet, or nothing open."""

    epoch: int
    last_timestamp: int
    last_sequence: int = -1
    coordinator_epoch: int = -1
    open_since: int = -1


class Producers:
    """Of one partition; batches are shown in the order of the log."""

    def __init__(self) -> None:
        self._known: dict[int, Producer] = {}
        # By the offsets at which transactions began, which rise: dicts keep the order.
        self._open: dict[int, int] = {}
        self._ended: deque[tuple[int, int]] = deque()
        # (offset of the marker, first offset, producer id), by the first.
        self._aborted: list[tuple[int, int, int]] = []
        self._newest_ms = -1
        self._looked_ms = -1

    def read(self, batches: bytes) -> None:
        """Whole batches as they are in the log."""
        for position, head in transactional(batches):
            marker = None
            if head.attributes & _CONTROL:
                marker = batches[position + _HEADER_BYTES : position + head.size]
            self._saw(head.producer_id, head.producer_epoch, head.base_offset,
                      head.last_offset_delta + 1, head.max_timestamp, marker)  # fmt: skip

    def wrote(self, append: Append) -> None:
        """A batch that was appended here."""
        if append.producer_id >= 0:
            marker = append.records if append.is_marker else None
            self._saw(append.producer_id, append.producer_epoch, append.base_offset,
                      append.record_count, append.max_timestamp, marker)  # fmt: skip

    def reached(self, high_watermark: int) -> None:
        """All replicas in sync have what is below: transactions that ended there are forgotten."""
        while self._ended and self._ended[0][1] < high_watermark:
            self._ended.popleft()

    def stable(self, high_watermark: int) -> int:
        """The last stable offset: below it every transaction has ended, and so have all replicas
        in sync the marker (Kafka's firstUnstableOffset)."""
        self.reached(high_watermark)
        if not self._ended and not self._open:
            return high_watermark
        firsts = [first for first, _ in self._ended]
        firsts += [next(iter(self._open.values()))] if self._open else []
        return min([high_watermark, *firsts])

    def aborted(self, begin: int, end: int) -> list[tuple[int, int]]:
        """(producer id, first offset) of what was aborted and has records in [begin, end)."""
        at = bisect.bisect_left(self._aborted, (begin, -1, -1))
        return [(producer, first) for _, first, producer in self._aborted[at:] if first < end]

    def active(self, now_ms: int) -> dict[int, Producer]:
        """By producer id: those that have something open, or wrote within a day."""
        self._forget(now_ms)
        return self._known

    def _saw(
        self,
        producer_id: int,
        epoch: int,
        offset: int,
        count: int,
        timestamp: int,
        marker: bytes | None,
    ) -> None:
        self._newest_ms = max(self._newest_ms, timestamp)
        if self._newest_ms - self._looked_ms > _EXPIRES_MS:
            self._forget(self._newest_ms)
        known = self._known.get(producer_id)
        if known is None:
            known = self._known[producer_id] = Producer(epoch, timestamp)
        if known.epoch != epoch:
            known.epoch, known.last_sequence = epoch, -1
        known.last_timestamp = timestamp
        if marker is None:
            known.last_sequence = count - 1  # coordinators begin at 0 in each batch
            known.open_since = self._open.setdefault(producer_id, offset)
            return
        known.open_since = -1
        _, kind, _, known.coordinator_epoch = _MARKER.unpack_from(marker)
        first = self._open.pop(producer_id, None)
        if first is None:
            return  # a marker for a transaction that wrote nothing here
        self._ended.append((first, offset))
        if kind == _ABORT:
            self._aborted.append((offset, first, producer_id))

    def _forget(self, now_ms: int) -> None:
        self._looked_ms = now_ms
        silent = [
            one
            for one, known in self._known.items()
            if known.open_since < 0 and now_ms - known.last_timestamp > _EXPIRES_MS
        ]
        for one in silent:
            del self._known[one]
