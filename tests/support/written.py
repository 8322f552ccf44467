"""A partition of `__consumer_offsets` as Kafka would write it, record by record, for logs that no
scenario holds. Independent of the code that writes pykcoord's own, but for the CRC.
"""

from __future__ import annotations

import struct
from pathlib import Path

from pykcoord.log._record_batch import crc32c

_TRANSACTIONAL, _CONTROL = 1 << 4, 1 << 5
_NOW_MS = 1_700_000_000_000


class WrittenLog:
    """Batches, one after the other. Every method writes one batch of one record and returns its
    offset."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []

    @property
    def next_offset(self) -> int:
        return len(self.batches)

    @property
    def data(self) -> bytes:
        return b"".join(self.batches)

    def save(self, directory: Path, partition: int) -> None:
        """As the one segment of a partition."""
        folder = directory / f"__consumer_offsets-{partition}"
        folder.mkdir(parents=True)
        if self.batches:
            (folder / f"{0:020d}.log").write_bytes(self.data)

    def commit(
        self,
        group: str,
        topic: str,
        partition: int,
        offset: int | None,
        *,
        producer: tuple[int, int] | None = None,
    ) -> int:
        """An offset, or its tombstone (None); pending, of a producer's (id, epoch) transaction."""
        key = struct.pack(">h", 1) + _string(group) + _string(topic) + struct.pack(">i", partition)
        value = None
        if offset is not None:
            value = struct.pack(">hqi", 3, offset, -1) + _string("") + struct.pack(">q", _NOW_MS)
        return self.record(key, value, producer=producer)

    def marker(self, producer: tuple[int, int], committed: bool) -> int:
        """The end of a producer's transaction."""
        key, value = struct.pack(">hh", 0, committed), struct.pack(">hi", 0, 0)
        return self.record(key, value, producer=producer, attributes=_TRANSACTIONAL | _CONTROL)

    def record(
        self,
        key: bytes,
        value: bytes | None,
        *,
        producer: tuple[int, int] | None = None,
        attributes: int | None = None,
    ) -> int:
        """Any record."""
        body = b"\0" + _varint(0) + _varint(0) + _varint(len(key)) + key
        body += _varint(-1) if value is None else _varint(len(value)) + value
        body += _varint(0)
        records = _varint(len(body)) + body
        if attributes is None:
            attributes = 0 if producer is None else _TRANSACTIONAL
        producer_id, producer_epoch = producer or (-1, -1)
        checked = struct.pack(
            ">hiqqqhii", attributes, 0, _NOW_MS, _NOW_MS, producer_id, producer_epoch,
            -1 if attributes & _CONTROL else 0, 1,
        ) + records  # fmt: skip
        offset = self.next_offset
        head = struct.pack(">qiibI", offset, len(checked) + 9, 0, 2, crc32c(checked))
        self.batches.append(head + checked)
        return offset


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def _varint(value: int) -> bytes:
    rest = value << 1 if value >= 0 else (-value << 1) - 1
    out = bytearray()
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)
