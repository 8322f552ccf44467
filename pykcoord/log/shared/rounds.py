"""Journals: what a node wrote, all its shards in one object a round.

    <cluster>/cluster/000000000017                  an entry of the cluster log
    <cluster>/nodes/00f1e2d3c4b5a697/000000000042   a round, or the fence that ended the journal
    <cluster>/shards/00012/snapshots/0000000003-000000000042

A journal is of one process of a node, and named by its incarnation. Rounds are numbered from 0;
what a round holds became durable together. Who decides where one goes, and that there is a fence,
is not here.

One object: 4 bytes of magic, CRC-32 of all that follows, the length of a JSON header, the header,
and the batches of its parts, one behind the other.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from typing import NamedTuple

from pykcoord.log.shared.entry import CorruptEntryError
from pykcoord.log.shared.store import Store

__all__ = [
    "CLUSTER_LOG",
    "Part",
    "Round",
    "entry_name",
    "fence_journal",
    "journal_name",
    "read_round",
    "round_name",
    "snapshots_name",
]

_MAGIC = b"KCJ1"
_PREFIX = struct.Struct(">4sII")
_FORMAT = 1
CLUSTER_LOG = "cluster"
"""The folder of the entries of the cluster log."""


class Part(NamedTuple):
    """What a round has of one shard: whole RecordBatches v2, `batches`, with `record_count` records
    from `base_offset` on, put by who led it in `epoch`."""

    shard: int
    epoch: int
    base_offset: int
    record_count: int
    batches: bytes

    @property
    def next_offset(self) -> int:
        """The offset of the record after the last."""
        return self.base_offset + self.record_count


class Round(NamedTuple):
    """One object of a journal. `fenced_by`: the incarnation that ended the journal with it; None
    for what its owner wrote."""

    parts: Sequence[Part] = ()
    fenced_by: int | None = None

    def encode(self) -> bytes:
        """The bytes of the object."""
        header = {
            "format": _FORMAT,
            "parts": [[*part[:4], len(part.batches)] for part in self.parts],
            "fenced_by": self.fenced_by,
        }
        text = json.dumps(header, separators=(",", ":")).encode()
        body = b"".join((struct.pack(">I", len(text)), text, *(one.batches for one in self.parts)))
        return _PREFIX.pack(_MAGIC, zlib.crc32(body), len(text)) + body[4:]

    @staticmethod
    def decode(name: str, content: bytes) -> Round:
        """Raises CorruptEntryError, which names the object."""
        if len(content) < _PREFIX.size:
            raise CorruptEntryError(name, f"{len(content)} bytes are too few for a round")
        magic, crc, header_length = _PREFIX.unpack_from(content)
        if magic != _MAGIC:
            raise CorruptEntryError(name, f"begins with {magic!r}, not with {_MAGIC!r}")
        if zlib.crc32(memoryview(content)[8:]) != crc:
            raise CorruptEntryError(name, "its CRC-32 does not fit its content")
        at = _PREFIX.size + header_length
        header = json.loads(content[_PREFIX.size : at])
        if header["format"] != _FORMAT:
            raise CorruptEntryError(name, f"has format {header['format']}, this version reads 1")
        parts = []
        for shard, epoch, base_offset, record_count, length in header["parts"]:
            part = Part(shard, epoch, base_offset, record_count, content[at : at + length])
            parts.append(part)
            at += length
        if at != len(content):
            raise CorruptEntryError(name, f"parts of {at} bytes in {len(content)} bytes")
        return Round(parts, header["fenced_by"])


def entry_name(index: int) -> str:
    """The object of an entry of the cluster log."""
    return f"{CLUSTER_LOG}/{index:012}"


def journal_name(incarnation: int) -> str:
    """The folder of a journal."""
    return f"nodes/{incarnation:016x}"


def round_name(incarnation: int, index: int) -> str:
    """The object of a round."""
    return f"{journal_name(incarnation)}/{index:012}"


def snapshots_name(shard: int) -> str:
    """The folder of a shard's snapshots. Their names begin with the epoch of who wrote them, and
    end with the number of the first round of its journal that is not in them."""
    return f"shards/{shard:05}/snapshots"


def read_round(store: Store, incarnation: int, index: int) -> Round | None:
    """None if there is none. Raises CorruptEntryError, and what the store raises."""
    name = round_name(incarnation, index)
    content = store.read(name)
    return None if content is None else Round.decode(name, content)


def fence_journal(store: Store, incarnation: int, start: int, by: int) -> int:
    """End a journal: whatever its owner puts from now on finds its place taken. Returns the number
    where the fence stands; the rounds below it count. Where there is a fence already, none is put
    behind it. No fence is below `start`.

    Raises what the store raises: then a fence may stand there or may come yet; do it again.
    """
    fence = Round(fenced_by=by).encode()
    listed = [int(name) for name in store.names(journal_name(incarnation))]
    at = max([start, *listed])  # all below the last are taken; what is last may be a fence
    while not store.create(round_name(incarnation, at), fence):
        found = read_round(store, incarnation, at)
        if found is not None and found.fenced_by is not None:
            return at
        at += 1
    return at
