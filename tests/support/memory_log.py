"""A log that keeps whole RecordBatches in memory: the log protocol for tests, without a disk.

`hold` keeps appends back until `release_held()`; `fail` makes those of a shard fail until `take`.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Sequence
from typing import Any

from pykcoord.log.protocol import Append, Failure, ShardReleasedError, Taken

_CRC_POLYNOMIAL = 0x82F63B78
_MAGIC = 2
_NO_PRODUCER = struct.pack(">qhi", -1, -1, -1)


class MemoryLog:
    def __init__(self, shards: int, *, hold: bool = False) -> None:
        self.shards = shards
        self.batches: list[list[bytes]] = [[] for _ in range(shards)]
        self.next_offsets = [0] * shards
        self.hold = hold
        self.fail: dict[int, Failure] = {}
        self.fail_take = 0
        self.taken: list[int] = []
        self._held: list[tuple[Sequence[Append], Callable[..., None]]] = []
        self._broken: set[int] = set()

    @property
    def size_bytes(self) -> int:
        return sum(len(batch) for batches in self.batches for batch in batches)

    def take(self, shard: int, new_loader: Callable[[], Any]) -> Taken:
        self.taken.append(shard)
        if self.fail_take and len(self.taken) > self.shards:
            self.fail_take -= 1
            raise OSError("the disk still fails")
        self.fail.pop(shard, None)
        if any(append.shard == shard for appends, _ in self._held for append in appends):
            self.release_held()
        self._broken.discard(shard)
        loader = new_loader()
        if self.batches[shard]:
            loader.replay(b"".join(self.batches[shard]))
        return Taken(loader, self.next_offsets[shard], 0)

    def release(self, shard: int) -> None:
        self._broken.add(shard)
        self.fail[shard] = ShardReleasedError(shard)
        self.release_held()

    def next_offset(self, shard: int) -> int:
        return self.next_offsets[shard]

    def append(self, appends: Sequence[Append], done: Callable[..., None]) -> None:
        self._held.append((appends, done))
        if not self.hold:
            self.release_held()

    def release_held(self) -> None:
        """Write what is held, and report it from another thread, as a log does."""
        held, self._held = self._held, []
        for appends, done in held:
            committed: dict[int, int] = {}
            failed: dict[int, Failure] = {}
            for append in appends:
                if append.shard in self.fail or append.shard in self._broken:
                    self._broken.add(append.shard)
                    error = self.fail.get(append.shard, OSError("the shard failed before"))
                    failed[append.shard] = error
                else:
                    committed[append.shard] = self._write(append)
            thread = threading.Thread(target=done, args=([*committed.items()], [*failed.items()]))
            thread.start()
            thread.join()

    def close(self) -> None:
        self.release_held()

    def _write(self, append: Append) -> int:
        assert append.base_offset == self.next_offsets[append.shard]
        self.batches[append.shard].append(record_batch(append))
        end = append.base_offset + append.record_count
        self.next_offsets[append.shard] = end
        return end


def record_batch(append: Append) -> bytes:
    """A RecordBatch v2: offset, length, epoch, magic, crc, then what the crc covers."""
    covered = struct.pack(
        ">hiqq", 0, append.record_count - 1, append.base_timestamp, append.max_timestamp
    )
    covered += _NO_PRODUCER + struct.pack(">i", append.record_count) + append.records
    body = struct.pack(">ibI", 0, _MAGIC, crc32c(covered)) + covered
    return struct.pack(">qi", append.base_offset, len(body)) + body


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (_CRC_POLYNOMIAL if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF
