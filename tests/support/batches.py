"""RecordBatch v2 in plain Python, for tests: written with any header, read back record by record.

Shares no code with pykcoord but the CRC.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from pykcoord.log._record_batch import crc32c

TRANSACTIONAL, CONTROL, HORIZON = 1 << 4, 1 << 5, 1 << 6
ABORT, COMMIT = 0, 1


@dataclass(frozen=True)
class Record:
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True)
class Batch:
    """`records` may have gaps; `last_offset` is what the header says."""

    base_offset: int
    last_offset: int
    records: Sequence[Record] = ()
    attributes: int = 0
    base_timestamp: int = 0
    max_timestamp: int = 0
    producer_id: int = -1
    producer_epoch: int = -1
    leader_epoch: int = field(default=0, compare=False)

    def encode(self) -> bytes:
        area = b"".join(_record(self, record) for record in self.records)
        body = struct.pack(
            ">hiqqqhii", self.attributes, self.last_offset - self.base_offset,
            self.base_timestamp, self.max_timestamp, self.producer_id, self.producer_epoch, 0,
            len(self.records),
        ) + area  # fmt: skip
        head = struct.pack(">qiib", self.base_offset, 9 + len(body), self.leader_epoch, 2)
        return head + struct.pack(">I", crc32c(body)) + body


def data(
    base_offset: int,
    records: Iterable[tuple[bytes | None, bytes | None]],
    producer_id: int = -1,
    timestamp: int = 1000,
) -> Batch:
    made = [
        Record(base_offset + n, timestamp + n, key, value) for n, (key, value) in enumerate(records)
    ]
    last = made[-1]
    attributes = TRANSACTIONAL if producer_id >= 0 else 0
    epoch = 0 if producer_id >= 0 else -1
    return Batch(
        base_offset, last.offset, made, attributes, timestamp, last.timestamp, producer_id, epoch
    )


def marker(offset: int, producer_id: int, kind: int, timestamp: int = 1000) -> Batch:
    record = Record(offset, timestamp, struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 0))
    return Batch(
        offset, offset, [record], TRANSACTIONAL | CONTROL, timestamp, timestamp, producer_id, 0
    )


def decode(chunks: Iterable[bytes]) -> Iterator[Batch]:
    """The batches of plain chunks."""
    for chunk in chunks:
        position = 0
        while position < len(chunk):
            base_offset, length, epoch = struct.unpack_from(">qii", chunk, position)
            fields = struct.unpack_from(">hiqqqhii", chunk, position + 21)
            attributes, delta, base, newest, producer_id, producer_epoch, _, count = fields
            area, records = position + 61, []
            for _ in range(count):
                record, area = _read(chunk, area, base_offset, base)
                records.append(record)
            position += 12 + length
            assert area == position
            yield Batch(
                base_offset, base_offset + delta, records, attributes, base, newest, producer_id,
                producer_epoch, epoch,
            )  # fmt: skip


def _record(batch: Batch, record: Record) -> bytes:
    body = (
        b"\0"
        + _varint(record.timestamp - batch.base_timestamp)
        + _varint(record.offset - batch.base_offset)
        + _bytes(record.key)
        + _bytes(record.value)
        + b"\0"
    )
    return _varint(len(body)) + body


def _bytes(value: bytes | None) -> bytes:
    return _varint(-1) if value is None else _varint(len(value)) + value


def _varint(value: int) -> bytes:
    rest, out = (value << 1) ^ (value >> 63), bytearray()
    rest &= 2**64 - 1
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*out, rest])


def _read(chunk: bytes, position: int, base_offset: int, base: int) -> tuple[Record, int]:
    length, position = _number(chunk, position)
    end = position + length
    timestamp, position = _number(chunk, position + 1)
    offset, position = _number(chunk, position)
    key, position = _take(chunk, position)
    value, position = _take(chunk, position)
    assert position == end - 1
    return Record(base_offset + offset, base + timestamp, key, value), end


def _take(chunk: bytes, position: int) -> tuple[bytes | None, int]:
    length, position = _number(chunk, position)
    if length < 0:
        return None, position
    return chunk[position : position + length], position + length


def _number(chunk: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = chunk[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
