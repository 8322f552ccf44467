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
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pykcoord.log._record_batch import Header, Stop, crc32c, find_sound, header, scan
from pykcoord.log.compression import decompress
from pykcoord.log.durable import new_directory, private
from pykcoord.log.event_shares import EventShares
from pykcoord.log.record_area import encode_record, read_varint

__all__ = [
    "EVENTS_TOPIC", "EventLimits", "EventLog", "EventRecord", "Kept", "Merge", "Records",
    "batches_from", "decode_batch", "decode_batches", "encode_batch", "encode_batches",
    "event_shards", "merged", "read_events",
]  # fmt: skip

EVENTS_TOPIC = "__pykcoord_group_events"

_FOLDER = re.compile(re.escape(EVENTS_TOPIC) + r"-(\d+)")
_SEGMENT = re.compile(r"(\d{20})\.log")
# Of plain records in a batch of a full segment.
_BATCH_BYTES = 128 * 1024
_LARGEST_BATCH_BYTES = 16 << 20
_GZIP = 1
# Levels of zlib: of what comes, and of a full segment.
_QUICKLY, _WELL = 1, 6
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


Kept = tuple[int, bytes, bytes]
"""Time in ms, key and value of a record: group id (empty: the whole coordinator) and JSON."""


class Records(NamedTuple):
    """Records of one batch: how many, the first and the latest time in ms, and all of them, one
    after the other, with deltas to the first."""

    number: int
    base_ms: int
    newest_ms: int
    area: bytes


@dataclass(frozen=True, slots=True)
class EventLimits:
    """Of one shard: bytes of a segment, how long and how much of the log is kept, and how much of
    one group (in JSON) its full segments keep."""

    segment_bytes: int = 256 * 1024
    retention_ms: int = 7 * 86_400_000
    retention_bytes: int = 16 << 20
    group_bytes: int = 4 << 20


Merge = Callable[..., tuple[list[tuple[int, int, int, int, int, bytes]], dict[bytes, int], int]]
"""Batches as few large ones: (base offset, number of records, last offset delta, first and latest
time in ms, records) of each; the bytes of each key; how many records were left out."""


class EventLog:
    """The events of one shard. Made by its one writer, or by a reader, who calls no `append`.
    `merge`, of the writer, puts full segments together (`_native.merge_events`).

    `end_offset` is that of the next record, `start_offset` that of the first one kept. `over_group`
    and `over_shard` count the events that its writer removed because a group, or all together, had
    more bytes than they may have. Raises OSError.
    """

    def __init__(
        self,
        directory: Path,
        shard: int,
        limits: EventLimits | None = None,
        merge: Merge | None = None,
    ) -> None:
        self.folder = directory / f"{EVENTS_TOPIC}-{shard}"
        self._limits = limits or EventLimits()
        self._merge = merge
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
            if found.stop is not Stop.END and merge is not None:
                self._leave_damage(data, found.end)

    @property
    def start_offset(self) -> int:
        """The offset of the oldest segment."""
        return self._segments[0] if self._segments else 0

    def append(self, records: Iterable[Kept | Records]) -> None:
        """Write them, in batches."""
        batches, count = encode_batches(self.end_offset, list(records))
        if count:
            self._write(batches, count)

    def _write(self, batch: bytes, count: int) -> None:
        if not self._segments:
            new_directory(self.folder, exist_ok=True)
            self._segments.append(self.end_offset)
        elif self._size + len(batch) > self._limits.segment_bytes and self._size:
            self._roll()
        with open(_path(self.folder, self._segments[-1]), "ab", opener=private) as file:
            file.write(batch)
        self._size += len(batch)
        self.end_offset += count

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
        for record in self.records(timestamp_ms):
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
            for position, size, _ in _sound(data, base):
                if header(data, position).max_timestamp >= since_ms:
                    yield from _readable(data, position, size)

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
        kept = self._write_anew(full, most)
        heavy = shares.put(full, kept)
        for key in heavy:
            for base, left in shares.to_cut(key, most):
                self._write_anew(base, left, key)
                shares.cut(base, key, left)

    def _known_shares(self) -> EventShares:
        if self._shares is None:
            self._shares = EventShares(self.folder, self._segments[:-1], self._limits.group_bytes)
        return self._shares

    def _write_anew(self, base: int, most: int, only: bytes | None = None) -> dict[bytes, int]:
        """A full segment, with few batches, and no more bytes of a group than it may have; `only`:
        of this one alone. How many each group has in it now."""
        full = _path(self.folder, base)
        data = full.read_bytes()
        assert self._merge is not None, "of a reader"
        batches, sizes, dropped = merged(self._merge, batches_from(data, base, base), most, only)
        self.over_group += dropped
        changed = full.stat().st_mtime
        cleaned = full.with_suffix(".cleaned")
        with open(cleaned, "wb", opener=private) as file:
            file.write(batches)
        os.utime(cleaned, (changed, changed))
        os.replace(cleaned, full)
        return sizes


def event_shards(directory: Path) -> list[int]:
    """The shards that have such a log in a data directory."""
    found = (_FOLDER.fullmatch(path.name) for path in directory.iterdir() if path.is_dir())
    return sorted(int(match[1]) for match in found if match)


def newest_bytes(directory: Path, shard: int) -> tuple[int, int]:
    """The newest segment of such a log, and how large it is: others once more is in it. (-1, 0):
    there is none. Raises OSError."""
    folder = directory / f"{EVENTS_TOPIC}-{shard}"
    if not (found := _segments(folder)):
        return -1, 0
    return found[-1], _path(folder, found[-1]).stat().st_size


def read_events(directory: Path) -> dict[int, list[EventRecord]]:
    """All that a data directory holds, by shard. Never changes anything. Raises OSError."""
    return {shard: list(EventLog(directory, shard).records()) for shard in event_shards(directory)}


def encode_batches(base_offset: int, records: Sequence[Kept | Records]) -> tuple[bytes, int]:
    """Batches with offsets from `base_offset` on, single records first; and how many they have."""
    single = [one for one in records if not isinstance(one, Records)]
    parts = [encode_batch(base_offset, single)] if single else []
    count = len(single)
    for one in records:
        if isinstance(one, Records):
            parts.append(_sealed(base_offset + count, one, _QUICKLY))
            count += one.number
    return b"".join(parts), count


def encode_batch(base_offset: int, records: list[Kept]) -> bytes:
    """One batch of single records, with offsets from `base_offset` on."""
    offsets = range(base_offset, base_offset + len(records))
    return _batch([EventRecord(at, *of) for at, of in zip(offsets, records, strict=True)])


def decode_batch(batch: bytes | memoryview) -> list[EventRecord]:
    """The records of one whole batch. Raises ValueError for what cannot be read."""
    of, area = _plain(batch)
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


def _plain(batch: bytes | memoryview) -> tuple[Header, memoryview]:
    """Its header and its records. Raises ValueError."""
    of = header(batch, 0)
    area = memoryview(batch)[_BATCH_HEAD_BYTES : of.size]
    if of.attributes & 7:
        area = decompress(of.attributes & 7, area, _LARGEST_BATCH_BYTES)
    return of, area


def decode_batches(data: bytes, base: int = 0) -> Iterator[tuple[int, list[EventRecord]]]:
    """The records of each sound batch, none where they cannot be read, and the offset behind it.
    No offset is below `base`. Damage between batches is passed over."""
    for position, size, next_offset in _sound(data, base):
        yield next_offset, _readable(data, position, size)


def _readable(data: bytes, position: int, size: int) -> list[EventRecord]:
    """The records of a sound batch; none where they cannot be read."""
    try:
        return decode_batch(memoryview(data)[position : position + size])
    except ValueError:
        return []


def _batch(records: list[EventRecord]) -> bytes:
    base, since = records[0].offset, records[0].timestamp_ms
    parts = [
        encode_record(timestamp_ms - since, offset - base, key or None, value)
        for offset, timestamp_ms, key, value in records
    ]
    newest = max(record.timestamp_ms for record in records)
    of = Records(len(records), since, newest, b"".join(parts))
    return _sealed(base, of, _WELL, records[-1].offset - base)


def _sealed(base: int, records: Records, level: int, delta: int | None = None) -> bytes:
    """A batch of records with offsets from `base` on; `delta`: the last one's from there, where
    some between are gone."""
    packer = zlib.compressobj(level, zlib.DEFLATED, 31)
    area = packer.compress(records.area) + packer.flush()
    count, since, newest, _ = records
    last = count - 1 if delta is None else delta
    body = _BODY.pack(_GZIP, last, since, newest, -1, -1, -1, count) + area
    return _HEAD.pack(base, len(body) + 9, 0, 2, crc32c(body)) + body


def batches_from(data: bytes, offset: int, base: int = 0) -> Iterator[bytes]:
    """Each sound batch that has the record of `offset` or later ones. No offset is below `base`."""
    for position, size, next_offset in _sound(data, base):
        if next_offset > offset:
            yield data[position : position + size]


def merged(
    merge: Merge, batches: Iterable[bytes], most: int, only: bytes | None = None
) -> tuple[bytes, dict[bytes, int], int]:
    """Whole batches as few large ones, with no more bytes of a group than it may have, the newest
    (`only`: of this one alone); what goes of a group has one record left, which says how much. The
    bytes of each group in it; and how many went. Raises ValueError."""
    plain: list[tuple[int, int, int, bytes]] = []
    for batch in batches:
        of, area = _plain(batch)
        plain.append((of.base_offset, of.base_timestamp, of.record_count, bytes(area)))
    kept, sizes, dropped = merge(plain, _BATCH_BYTES, most, only, _dropped_before, _dropped_record)
    large = [
        _sealed(offset, Records(number, since, newest, records), _WELL, delta)
        for offset, number, delta, since, newest, records in kept
    ]
    return b"".join(large), sizes, dropped


def _dropped_record(key: bytes, timestamp_ms: int, count: int) -> bytes:
    fields = {
        "kind": _DROPPED,
        "group_id": key.decode("utf-8", "replace"),
        "timestamp_ms": timestamp_ms,
        "count": count,
    }
    return json.dumps(fields).encode()


def _dropped_before(value: bytes) -> int | None:
    """How many events a record stands for that says that they are gone; None: it does not."""
    try:
        fields = json.loads(value)
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
