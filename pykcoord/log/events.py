"""The log of what happened to groups: `__pykcoord_group_events-N` beside each partition of
`__consumer_offsets`, in the same format, with a retention of its own.

No group depends on it. It is written without a sync, what is damaged in it is left out, and all of
it may be removed while nothing runs. Batches are compressed with gzip, which every client can read.
A full segment is written anew with few large batches; offsets stay. What one group has too much of
is cut from the oldest segments (`shares`).
"""

from __future__ import annotations

import json
import os
import re
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pykcoord.log._record_batch import Stop, crc32c, find_sound, header, scan
from pykcoord.log.compression import decompress
from pykcoord.log.durable import new_directory, private
from pykcoord.log.event_shares import EventShares
from pykcoord.log.record_area import encode_record, read_varint

__all__ = [
    "EVENTS_TOPIC", "EventLimits", "EventLog", "EventRecord", "batches_from", "bounded",
    "decode_batch", "decode_batches", "encode_batch", "event_shards", "merged", "read_events",
]  # fmt: skip

EVENTS_TOPIC = "__pykcoord_group_events"

_FOLDER = re.compile(re.escape(EVENTS_TOPIC) + r"-(\d+)")
_SEGMENT = re.compile(r"(\d{20})\.log")
# Of plain records in a batch of a full segment.
_BATCH_BYTES = 128 * 1024
_LARGEST_BATCH_BYTES = 16 << 20
_GZIP = 1
_DROPPED = "events_dropped"
# Behind base offset and length: leader epoch, magic, CRC.
_HEAD = struct.Struct(">qiibI")
# Attributes, last offset delta, base and max timestamp, producer id and epoch, sequence, count.
_BODY = struct.Struct(">hiqqqhii")
_BATCH_HEAD_BYTES = _HEAD.size + _BODY.size


class EventRecord(NamedTuple):
    """One record: `key` is the group id, empty for what concerns the whole coordinator."""

    offset: int
    timestamp_ms: int
    key: bytes
    value: bytes


@dataclass(frozen=True, slots=True)
class EventLimits:
    """Of one shard: bytes of a segment, how long and how much of the log is kept, and how much of
    one group (in JSON) its full segments keep."""

    segment_bytes: int = 256 * 1024
    retention_ms: int = 7 * 86_400_000
    retention_bytes: int = 16 << 20
    group_bytes: int = 4 << 20


class EventLog:
    """The events of one shard. Made by its one writer, or by a reader, who calls no `append`.

    `end_offset` is that of the next record, `start_offset` that of the first one kept. `over_group`
    and `over_shard` count the events that its writer removed because a group, or all together, had
    more bytes than they may have. Raises OSError.
    """

    def __init__(
        self,
        directory: Path,
        shard: int,
        limits: EventLimits | None = None,
        *,
        writes: bool = False,
    ) -> None:
        self.folder = directory / f"{EVENTS_TOPIC}-{shard}"
        self._limits = limits or EventLimits()
        self._segments = _segments(self.folder)
        self._shares: EventShares | None = None
        self.over_group = self.over_shard = 0
        self.end_offset = 0
        self._size = 0
        if self._segments:
            last = self._segments[-1]
            data = _path(self.folder, last).read_bytes()
            found = scan(data, 0, last, last)
            self.end_offset = max(last, found.next_offset)
            self._size = found.end
            if found.stop is not Stop.END and writes:
                self._leave_damage(data, found.end)

    @property
    def start_offset(self) -> int:
        """The offset of the oldest segment."""
        return self._segments[0] if self._segments else 0

    def append(self, records: Iterable[tuple[int, bytes, bytes]]) -> None:
        """Write (time in ms, key, value) of each as one batch."""
        records = list(records)
        if not records:
            return
        batch = encode_batch(self.end_offset, records)
        if not self._segments:
            new_directory(self.folder, exist_ok=True)
            self._segments.append(self.end_offset)
        elif self._size + len(batch) > self._limits.segment_bytes and self._size:
            self._roll()
        with open(_path(self.folder, self._segments[-1]), "ab", opener=private) as file:
            file.write(batch)
        self._size += len(batch)
        self.end_offset += len(records)

    def expire(self, now_ms: int) -> None:
        """Remove full segments that are too old, or more than there may be."""
        sizes: list[tuple[int, int, float]] = []
        for base in self._segments[:-1]:
            of = _path(self.folder, base).stat()
            sizes.append((base, of.st_size, of.st_mtime))
        total = sum(size for _, size, _ in sizes) + self._size
        shares = self._known_shares()
        for base, size, changed in sizes:
            is_old = changed * 1000 < now_ms - self._limits.retention_ms
            if not is_old and total <= self._limits.retention_bytes:
                break
            if not is_old:
                data = _path(self.folder, base).read_bytes()
                self.over_shard += sum(len(records) for _, records in decode_batches(data, base))
            _path(self.folder, base).unlink(missing_ok=True)
            self._segments.remove(base)
            shares.forget(base)
            total -= size

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Whole batches as they lie there, the first with the record of `offset` or the next one;
        at least one if there is any."""
        segments = _segments(self.folder)
        later = [base for base in segments if base > offset]
        first = segments[len(segments) - len(later) - 1 :] if len(later) < len(segments) else later
        out = b""
        for base in first:
            try:
                data = _path(self.folder, base).read_bytes()
            except FileNotFoundError:
                continue  # it was too old meanwhile
            for batch in batches_from(data, offset, base):
                if out and len(out) + len(batch) > max_bytes:
                    return out
                out += batch
        return out

    def offset_at(self, timestamp_ms: int) -> tuple[int, int] | None:
        """The first record of that time or later: its offset and time; None: there is none."""
        for record in self.records():
            if record.timestamp_ms >= timestamp_ms:
                return record.offset, record.timestamp_ms
        return None

    def records(self, since_ms: int = 0) -> Iterator[EventRecord]:
        """All that can be read, in order; what is older than `since_ms` may be left out."""
        for base in _segments(self.folder):
            try:
                data = _path(self.folder, base).read_bytes()
            except FileNotFoundError:
                continue  # it was too old meanwhile
            for _, records in decode_batches(data, base):
                yield from records

    def _leave_damage(self, data: bytes, end: int) -> None:
        """A torn tail is cut; a segment with sound batches behind damage is left as it is."""
        if find_sound(data, end + 1, 0) < 0:
            os.truncate(_path(self.folder, self._segments[-1]), end)
            return
        known = [next_offset for *_, next_offset in _sound(data, self._segments[-1])]
        self.end_offset = max(known)
        self._segments.append(self.end_offset)
        self._size = 0

    def _roll(self) -> None:
        """Begin a segment, and write the one that is full anew."""
        full = self._segments[-1]
        shares = self._known_shares()
        self._segments.append(self.end_offset)
        self._size = 0
        most = self._limits.group_bytes
        kept = self._write_anew(full, lambda _: most)
        heavy = shares.put(full, kept)
        for key in heavy:
            for base, left in shares.to_cut(key, most):
                self._write_anew(base, {key: left}.get)
                shares.cut(base, key, left)

    def _known_shares(self) -> EventShares:
        if self._shares is None:
            self._shares = EventShares(self.folder, self._segments[:-1], self._limits.group_bytes)
        return self._shares

    def _write_anew(self, base: int, most: Callable[[bytes], int | None]) -> dict[bytes, int]:
        """A full segment, with few batches, and no more bytes of a group than it may have (None:
        as many as it has). How many each group has in it now."""
        full = _path(self.folder, base)
        data = full.read_bytes()
        records: list[EventRecord] = []
        for position, size, _ in _sound(data, base):
            records += decode_batch(memoryview(data)[position : position + size])
        kept, dropped = bounded(records, most)
        self.over_group += dropped
        changed = full.stat().st_mtime
        cleaned = full.with_suffix(".cleaned")
        with open(cleaned, "wb", opener=private) as file:
            file.writelines(merged(kept))
        os.utime(cleaned, (changed, changed))
        os.replace(cleaned, full)
        sizes: dict[bytes, int] = {}
        for record in kept:
            sizes[record.key] = sizes.get(record.key, 0) + len(record.value)
        return sizes


def event_shards(directory: Path) -> list[int]:
    """The shards that have such a log in a data directory."""
    found = (_FOLDER.fullmatch(path.name) for path in directory.iterdir() if path.is_dir())
    return sorted(int(match[1]) for match in found if match)


def read_events(directory: Path) -> dict[int, list[EventRecord]]:
    """All that a data directory holds, by shard. Never changes anything. Raises OSError."""
    return {shard: list(EventLog(directory, shard).records()) for shard in event_shards(directory)}


def encode_batch(base_offset: int, records: list[tuple[int, bytes, bytes]]) -> bytes:
    """One batch of (time in ms, key, value), with offsets from `base_offset` on."""
    offsets = range(base_offset, base_offset + len(records))
    return _batch([EventRecord(at, *of) for at, of in zip(offsets, records, strict=True)])


def decode_batch(batch: bytes | memoryview) -> list[EventRecord]:
    """The records of one whole batch. Raises ValueError for what cannot be read."""
    of = header(batch, 0)
    area = memoryview(batch)[_BATCH_HEAD_BYTES : of.size]
    if of.attributes & 7:
        area = decompress(of.attributes & 7, area, _LARGEST_BATCH_BYTES)
    found: list[EventRecord] = []
    try:
        position = 0
        for _ in range(of.record_count):
            _, position = read_varint(area, position)
            time_delta, position = read_varint(area, position + 1)
            offset_delta, position = read_varint(area, position)
            key_length, position = read_varint(area, position)
            key = bytes(area[position : position + max(0, key_length)])
            position += max(0, key_length)
            length, position = read_varint(area, position)
            value = bytes(area[position : position + length])
            position += length
            headers, position = read_varint(area, position)
            if headers:
                raise ValueError("headers, which are never written here")
            of_record = (of.base_offset + offset_delta, of.base_timestamp + time_delta)
            found.append(EventRecord(*of_record, key, value))
    except IndexError:
        raise ValueError("records that end too early") from None
    return found


def decode_batches(data: bytes, base: int = 0) -> Iterator[tuple[int, list[EventRecord]]]:
    """The records of each sound batch, none where they cannot be read, and the offset behind it.
    No offset is below `base`. Damage between batches is passed over."""
    for position, size, next_offset in _sound(data, base):
        try:
            records = decode_batch(memoryview(data)[position : position + size])
        except ValueError:
            records = []
        yield next_offset, records


def _batch(records: list[EventRecord]) -> bytes:
    base, since = records[0].offset, records[0].timestamp_ms
    parts = [
        encode_record(timestamp_ms - since, offset - base, key or None, value)
        for offset, timestamp_ms, key, value in records
    ]
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)
    area = packer.compress(b"".join(parts)) + packer.flush()
    newest = max(record.timestamp_ms for record in records)
    delta = records[-1].offset - base
    body = _BODY.pack(_GZIP, delta, since, newest, -1, -1, -1, len(records)) + area
    return _HEAD.pack(base, len(body) + 9, 0, 2, crc32c(body)) + body


def batches_from(data: bytes, offset: int, base: int = 0) -> Iterator[bytes]:
    """Each sound batch that has the record of `offset` or later ones. No offset is below `base`."""
    for position, size, next_offset in _sound(data, base):
        if next_offset > offset:
            yield data[position : position + size]


def merged(records: list[EventRecord]) -> Iterator[bytes]:
    """The records in few large batches."""
    waiting: list[EventRecord] = []
    size = 0
    for record in records:
        waiting.append(record)
        size += len(record.key) + len(record.value)
        if size >= _BATCH_BYTES:
            yield _batch(waiting)
            waiting, size = [], 0
    if waiting:
        yield _batch(waiting)


def bounded(
    records: list[EventRecord], most: Callable[[bytes], int | None]
) -> tuple[list[EventRecord], int]:
    """The newest of each group, up to so many bytes; of what goes, one record says how much. And
    how many went."""
    sizes: dict[bytes, int] = {}
    dropped: dict[bytes, int] = {}
    gone = 0
    kept: list[EventRecord] = []
    for record in reversed(records):
        size = sizes[record.key] = sizes.get(record.key, 0) + len(record.value)
        limit = most(record.key) if record.key else None
        if limit is not None and size > limit:
            is_first = record.key not in dropped
            count = _dropped_before(record)
            dropped[record.key] = dropped.get(record.key, 0) + (count or 1)
            gone += count is None
            if not is_first:
                continue
        kept.append(record)
    kept.reverse()
    told: set[bytes] = set()
    for at, record in enumerate(kept):
        if record.key in dropped and record.key not in told:
            told.add(record.key)
            fields = {
                "kind": _DROPPED,
                "group_id": record.key.decode("utf-8", "replace"),
                "timestamp_ms": record.timestamp_ms,
                "count": dropped[record.key],
            }
            kept[at] = record._replace(value=json.dumps(fields).encode())
    return kept, gone


def _dropped_before(record: EventRecord) -> int | None:
    """How many events a record stands for that says that they are gone; None: it does not."""
    if _DROPPED.encode() not in record.value:
        return None
    try:
        fields = json.loads(record.value)
        return int(fields["count"]) if fields["kind"] == _DROPPED else None
    except (ValueError, KeyError, TypeError):
        return None


def _sound(data: bytes, base: int) -> Iterator[tuple[int, int, int]]:
    """Position, size and next offset of each sound batch; damage between them is passed over."""
    position, expected = 0, base
    while position < len(data):
        # Offsets of another leader of a shard may be far beyond.
        first = int.from_bytes(data[position : position + 8], signed=True)
        began, end = position, scan(data, position, expected, max(expected, first)).end
        while position < end:
            of = header(data, position)
            expected = of.base_offset + of.last_offset_delta + 1
            yield position, of.size, expected
            position += of.size
        if position == began:
            found = find_sound(data, position + 1, expected)
            if found < 0:
                return
            position, expected = found, header(data, found).base_offset


def _segments(folder: Path) -> list[int]:
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    return sorted(int(match[1]) for match in map(_SEGMENT.fullmatch, names) if match)


def _path(folder: Path, base: int) -> Path:
    return folder / f"{base:020}.log"
