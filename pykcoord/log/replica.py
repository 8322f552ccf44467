"""One partition of a Kafka cluster's log of which this process has a replica: it follows another
server's, batch by batch, or writes its own as the leader, under the cluster's leader epochs.

Beside what `CopiedPartition` does: batches are written as the leader, and read back as they are,
from any offset, for those who follow.
"""

from __future__ import annotations

import bisect
import os
from collections.abc import Iterable
from pathlib import Path

from pykcoord.log._record_batch import frame, header
from pykcoord.log.copied import CopiedPartition, checked
from pykcoord.log.naming import naming
from pykcoord.log.protocol import Append
from pykcoord.log.segment import SegmentFile, pieces

__all__ = ["ReplicaLog"]

_HEADER_BYTES = 61
# Between two offsets whose place in a segment is known.
_INDEX_BYTES = 16 << 10
# Of one partition, in memory.
_TAIL_BYTES = 64 << 10


class ReplicaLog(CopiedPartition):
    """Made by `open`, as any copy."""

    def __init__(self, directory: Path, segment_bytes: int) -> None:
        super().__init__(directory, segment_bytes)
        # By a segment's base offset: (offset, byte) of batches, ascending in both.
        self._index: dict[int, list[tuple[int, int]]] = {}
        # What was written last as the leader, by the offset where it begins, and where it ends:
        # followers ask for it at once.
        self._tail: dict[int, tuple[bytes, int]] = {}
        self._tail_bytes = 0

    @property
    def start_offset(self) -> int:
        """The first offset that may be there."""
        return self._segments[0].base_offset if self._segments else self.next_offset

    def follow(self, data: bytes) -> int:
        """Writes what a leader sent, as far as it follows; returns how many bytes. Raises
        UnfitBatchError, OSError."""
        copied = checked(self.directory, data, self.next_offset, self.last_epoch)
        if copied is None:
            return 0
        at, position = self.next_offset, self._size
        self.append(copied)
        self._note(at, position)
        return len(copied.data)

    def lead(self, appends: Iterable[Append], leader_epoch: int) -> None:
        """Writes batches of this process. Raises OSError; what was written half is cut off."""
        batches, epochs = [], [(leader_epoch, self.next_offset)]
        next_offset = self.next_offset
        for append in appends:
            assert append.base_offset == next_offset, (self.directory, next_offset, append)
            of_batch = (append.base_timestamp, append.max_timestamp, leader_epoch, *append[6:])
            batches.append(
                frame(append.records, append.record_count, append.base_offset, *of_batch)
            )
            next_offset += append.record_count
        at, position = self.next_offset, self._size
        data = b"".join(batches)
        self.write(data, next_offset, epochs)
        self._note(at, position)
        self._tail[at] = data, next_offset
        self._tail_bytes += len(data)
        while self._tail_bytes > _TAIL_BYTES:
            oldest = next(iter(self._tail))
            self._tail_bytes -= len(self._tail.pop(oldest)[0])

    def begin_epoch(self, leader_epoch: int) -> None:
        """This process leads from here on under that epoch, also if it never writes: followers may
        ask for the end of an earlier one."""
        self.forget_empty_epochs()
        if self.last_epoch < leader_epoch:  # else it goes on under the same one
            self._epochs = [*self._epochs, (leader_epoch, self.next_offset)]

    def forget_empty_epochs(self) -> None:
        """Epochs under which nothing was written are as if they had not been."""
        self._epochs = [one for one in self._epochs if one[1] < self.next_offset]

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest leader epoch at or below `epoch`, and where it ends, as Kafka's
        LeaderEpochFileCache.endOffsetFor; (-1, -1) where nothing is known of it."""
        if not self._epochs or epoch < 0 or epoch > self._epochs[-1][0]:
            return -1, -1
        if epoch == self._epochs[-1][0]:
            return epoch, self.next_offset
        at = bisect.bisect_right([one for one, _ in self._epochs], epoch)
        return (self._epochs[at - 1][0] if at else epoch), self._epochs[at][1]

    def batches_from(self, offset: int, most_bytes: int) -> bytes:
        """Whole batches as they are, from the one that holds `offset` on: up to `most_bytes`, at
        least one. Empty at the end. Raises OSError."""
        if offset >= self.next_offset:
            return b""
        if (found := self._of_tail(offset, most_bytes)) is not None:
            return found
        bases = [file.base_offset for file in self._segments]
        number = max(0, bisect.bisect_right(bases, offset) - 1)
        while number < len(self._segments):
            found = self._read(self._segments[number], offset, most_bytes)
            if found:
                return found
            number += 1  # the offset was in a gap at the segment's end
        return b""

    def truncate(self, offset: int) -> list[Path]:
        """See `CopiedPartition.truncate`."""
        kept = super().truncate(offset)
        self._index.clear()
        self._tail.clear()
        self._tail_bytes = 0
        return kept

    def _of_tail(self, offset: int, most_bytes: int) -> bytes | None:
        """What was written from `offset` on; None where it is to be read."""
        chunks, size = [], 0
        while (found := self._tail.get(offset)) is not None:
            data, offset = found
            if size + len(data) > most_bytes:
                break
            chunks.append(data)
            size += len(data)
        return (chunks[0] if len(chunks) == 1 else b"".join(chunks)) if chunks else None

    def _read(self, file: SegmentFile, offset: int, most_bytes: int) -> bytes:
        is_active = file is self._segments[-1]
        size = self._size if is_active else file.path.stat().st_size
        position = self._place(file, offset)
        with naming(file.path), open(file.path, "rb", buffering=0) as opened:
            descriptor = opened.fileno()
            while position < size:
                want = min(size - position, max(most_bytes, _INDEX_BYTES) + _INDEX_BYTES)
                data = os.pread(descriptor, want, position)
                start = at = 0
                while at + _HEADER_BYTES <= len(data):
                    batch = header(data, at)
                    if at + batch.size > len(data):
                        break
                    if batch.base_offset + batch.last_offset_delta < offset:
                        start = at + batch.size
                    elif at > start and at + batch.size - start > most_bytes:
                        return data[start:at]
                    at += batch.size
                if at > start:
                    return data[start:at]
                if at == 0:  # one batch that is larger than what was read
                    whole = header(data, 0).size
                    return os.pread(descriptor, whole, position)
                position += at
        return b""

    def _place(self, file: SegmentFile, offset: int) -> int:
        """A byte at which a batch begins, at or before the one that holds `offset`."""
        known = self._index.get(file.base_offset)
        if known is None:
            known = self._index[file.base_offset] = _index_of(file)
        at = bisect.bisect_right(known, (offset, 1 << 62))
        return known[at - 1][1] if at else 0

    def _note(self, offset: int, position: int) -> None:
        """A batch of `offset` was written at `position`, or begins the segment."""
        file = self._segments[-1]
        if file.base_offset == offset:
            self._index[offset] = [(offset, 0)]
            return
        known = self._index.get(file.base_offset)
        if known and position - known[-1][1] >= _INDEX_BYTES:
            known.append((offset, position))


def _index_of(file: SegmentFile) -> list[tuple[int, int]]:
    found = [(file.base_offset, 0)]
    for piece in pieces(file, file.base_offset, piece_bytes=4 * _INDEX_BYTES):
        if piece.scan.end:
            found.append((piece.scan.next_offset, piece.position + piece.scan.end))
    return found
