"""What lies in a shard log: chunks of records, and snapshots of what they amount to.

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

__all__ = ["Chunk", "CorruptChunkError", "Snapshot", "decode_chunk", "decode_snapshot", "encode"]

_MAGIC = b"KCS1"
_PREFIX = struct.Struct(">4sII")


class CorruptChunkError(KcoordError):
    """An object of a shard log that is not what was written: `name` says which, and the way out."""

    def __init__(self, name: str, reason: str) -> None:
        advice = "restore the object from a copy of the log; nothing behind it can be trusted"
        super().__init__(f"{name}: {reason}; {advice}")
        self.name = name
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Chunk:
    """Records that became durable together.

    `batches` are whole RecordBatches v2 with `record_count` records from `base_offset` on. `source`
    and `sequence` name what asked for it (a streaming query and its batch), `responses` what a
    repetition of that is answered. A chunk without records that nobody asked for begins an epoch:
    the first that a stream wrote holds, as `responses`, what its shard began as. `now_ms` is the
    time, in ms since the epoch, that the shard was told.
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
        """Whether it is a claim, and nothing that somebody asked for."""
        return self.record_count == 0 and self.sequence < 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What all chunks below an index amount to.

    `content` is up to who makes it: of hosts, RecordBatches that a shard can replay; of a stream,
    what `Shard.snapshot` gave, which holds no records. `sources` maps each source to its last
    sequence and the index of the chunk that holds its responses.
    """

    epoch: int
    next_offset: int
    now_ms: int = 0
    content: bytes = b""
    sources: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def is_frozen(self) -> bool:
        """Whether it is a stream's."""
        return self.content.startswith(b"KCR1")


def encode(entry: Chunk | Snapshot) -> bytes:
    """The bytes of the object."""
    if isinstance(entry, Chunk):
        header: dict[str, Any] = {
            "epoch": entry.epoch,
            "base_offset": entry.base_offset,
            "record_count": entry.record_count,
            "now_ms": entry.now_ms,
            "source": entry.source,
            "sequence": entry.sequence,
            "lengths": [len(entry.batches), len(entry.responses)],
        }
        parts = [entry.batches, entry.responses]
    else:
        header = {
            "epoch": entry.epoch,
            "next_offset": entry.next_offset,
            "now_ms": entry.now_ms,
            "sources": {source: list(place) for source, place in entry.sources.items()},
            "lengths": [len(entry.content)],
        }
        parts = [entry.content]
    text = json.dumps(header, separators=(",", ":"), sort_keys=True).encode()
    body = b"".join((struct.pack(">I", len(text)), text, *parts))
    return _PREFIX.pack(_MAGIC, zlib.crc32(body), len(text)) + body[4:]


def decode_chunk(name: str, content: bytes) -> Chunk:
    """Raises CorruptChunkError, which names the object."""
    header, (batches, responses) = _open(name, content, 2)
    try:
        return Chunk(batches=batches, responses=responses, **header)
    except TypeError as error:
        raise CorruptChunkError(name, f"no header of a chunk: {error}") from None


def decode_snapshot(name: str, content: bytes) -> Snapshot:
    """Raises CorruptChunkError, which names the object."""
    header, (body,) = _open(name, content, 1)
    try:
        sources = {source: (place[0], place[1]) for source, place in header.pop("sources").items()}
        return Snapshot(content=body, sources=sources, **header)
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        raise CorruptChunkError(name, f"no header of a snapshot: {error!r}") from None


def _open(name: str, content: bytes, parts: int) -> tuple[dict[str, Any], list[bytes]]:
    """Header and parts of an object whose every byte was checked."""
    if len(content) < _PREFIX.size:
        raise CorruptChunkError(name, f"{len(content)} bytes are too few for an object of a log")
    magic, crc, header_length = _PREFIX.unpack_from(content)
    if magic != _MAGIC:
        raise CorruptChunkError(name, f"begins with {magic!r}, not with {_MAGIC!r}")
    if zlib.crc32(memoryview(content)[8:]) != crc:
        raise CorruptChunkError(name, "its CRC-32 does not fit its content")
    at = _PREFIX.size + header_length
    header = json.loads(content[_PREFIX.size : at])
    lengths = header.pop("lengths")
    if len(lengths) != parts or at + sum(lengths) != len(content):
        raise CorruptChunkError(name, f"parts of {lengths} bytes in {len(content)} bytes")
    found = []
    for length in lengths:
        found.append(content[at : at + length])
        at += length
    return header, found
