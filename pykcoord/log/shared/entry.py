"""What lies in a shard log: entries of records, and snapshots of what they amount to.

One object: 4 bytes of magic, CRC-32 of all that follows, the length of a JSON header, the header,
and the parts that it gives the lengths of. An object is written once and read whole.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pykcoord.errors import KcoordError

__all__ = ["CorruptEntryError", "Entry", "Snapshot", "decode_entry", "decode_snapshot", "encode"]

_MAGIC = b"KCS1"
_PREFIX = struct.Struct(">4sII")


class CorruptEntryError(KcoordError):
    """An object of a shard log that is not what was written: `name` says which, and the way out."""

    def __init__(self, name: str, reason: str) -> None:
        advice = "restore the object from a copy of the log; nothing behind it can be trusted"
        super().__init__(f"{name}: {reason}; {advice}")
        self.name = name
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Entry:
    """Records that became durable together.

    `batches` are whole RecordBatches v2 with `record_count` records from `base_offset` on. `source`
    and `sequence` name what asked for it (a streaming query and its batch), `responses` what a
    repetition of that is answered. An entry without records and without a `sequence` begins an
    epoch: the first that a stream wrote holds, as `responses`, what its shard began as. `now_ms` is
    the shard's time, in ms since the epoch.
    """

    epoch: int
    base_offset: int
    record_count: int = 0
    now_ms: int = 0
    source: str = ""
    sequence: int = -1
    batches: bytes = b""
    responses: bytes = b""

    @property
    def next_offset(self) -> int:
        """The offset of the record after the last."""
        return self.base_offset + self.record_count

    @property
    def begins_epoch(self) -> bool:
        """Whether it is a claim, and not the answer to a request."""
        return self.record_count == 0 and self.sequence < 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What all entries below an index amount to: a shard whose next record gets `next_offset`,
    written by the leader of `epoch` at `now_ms` (ms since the epoch).

    `content` depends on the writer. A host writes RecordBatches that a shard can replay; a stream
    writes what `ArrowShard.checkpoint` gave, which holds no records. `sources` maps each source to
    its last sequence and the index of the entry that holds its responses.
    """

    epoch: int
    next_offset: int
    now_ms: int = 0
    content: bytes = b""
    sources: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def is_checkpoint(self) -> bool:
        """Whether `content` is the checkpoint of a stream's shard, and holds no records."""
        return self.content.startswith(b"KCR1")


def encode(stored: Entry | Snapshot) -> bytes:
    """The bytes of the object."""
    if isinstance(stored, Entry):
        header: dict[str, Any] = {
            "epoch": stored.epoch,
            "base_offset": stored.base_offset,
            "record_count": stored.record_count,
            "now_ms": stored.now_ms,
            "source": stored.source,
            "sequence": stored.sequence,
            "lengths": [len(stored.batches), len(stored.responses)],
        }
        parts = [stored.batches, stored.responses]
    else:
        header = {
            "epoch": stored.epoch,
            "next_offset": stored.next_offset,
            "now_ms": stored.now_ms,
            "sources": {source: list(place) for source, place in stored.sources.items()},
            "lengths": [len(stored.content)],
        }
        parts = [stored.content]
    text = json.dumps(header, separators=(",", ":"), sort_keys=True).encode()
    body = b"".join((struct.pack(">I", len(text)), text, *parts))
    return _PREFIX.pack(_MAGIC, zlib.crc32(body), len(text)) + body[4:]


def decode_entry(name: str, content: bytes) -> Entry:
    """Raises CorruptEntryError, which names the object."""
    header, (batches, responses) = _open(name, content, 2)
    try:
        return Entry(batches=batches, responses=responses, **header)
    except TypeError as error:
        raise CorruptEntryError(name, f"no header of an entry: {error}") from None


def decode_snapshot(name: str, content: bytes) -> Snapshot:
    """Raises CorruptEntryError, which names the object."""
    header, (body,) = _open(name, content, 1)
    try:
        sources = {source: (place[0], place[1]) for source, place in header.pop("sources").items()}
        return Snapshot(content=body, sources=sources, **header)
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        raise CorruptEntryError(name, f"no header of a snapshot: {error!r}") from None


def _open(name: str, content: bytes, parts: int) -> tuple[dict[str, Any], list[bytes]]:
    """Header and parts of an object whose every byte was checked."""
    if len(content) < _PREFIX.size:
        raise CorruptEntryError(name, f"{len(content)} bytes are too few for an object of a log")
    magic, crc, header_length = _PREFIX.unpack_from(content)
    if magic != _MAGIC:
        raise CorruptEntryError(name, f"begins with {magic!r}, not with {_MAGIC!r}")
    if zlib.crc32(memoryview(content)[8:]) != crc:
        raise CorruptEntryError(name, "its CRC-32 does not fit its content")
    at = _PREFIX.size + header_length
    header = json.loads(content[_PREFIX.size : at])
    lengths = header.pop("lengths")
    if len(lengths) != parts or at + sum(lengths) != len(content):
        raise CorruptEntryError(name, f"parts of {lengths} bytes in {len(content)} bytes")
    found = []
    for length in lengths:
        found.append(content[at : at + length])
        at += length
    return header, found
