"""Segment files: which of a partition's files count, and reading their batches, checked.

Names and suffixes are Kafka's (LogFileUtils, LogLoader). Nothing here changes a file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from pykcoord.errors import CorruptLogError, LogError
from pykcoord.log import compression
from pykcoord.log._record_batch import Scan, Stop, header, next_compressed, reframe, scan
from pykcoord.log.naming import naming

__all__ = [
    "Piece",
    "Plan",
    "Replay",
    "SegmentFile",
    "SegmentScan",
    "companions",
    "pieces",
    "plain",
    "plan",
    "refuse_packed_file",
    "scan_segment",
    "segment_name",
]

# Small enough to stay in the cache between reading, checking and handing on.
CHUNK_BYTES = 512 << 10

_NAME = re.compile(r"(\d{20})\.(log|index|timeindex|txnindex)(\.deleted|\.cleaned|\.swap)?")
# As people pack a log to carry or keep it.
_PACKED = re.compile(r"\d{20}\.log\.(gz|zst|bz2|xz|lz4|zip)")
_UNPACK = {
    "gz": "gunzip",
    "zst": "unzstd --rm",
    "bz2": "bunzip2",
    "xz": "unxz",
    "lz4": "unlz4 --rm -m",
    "zip": "unzip",
}


Replay = Callable[[bytes], None]


class SegmentFile(NamedTuple):
    """A `.log` file. `base_offset` is the number in its name."""

    base_offset: int
    path: Path


class Plan(NamedTuple):
    """What a crash in the middle of a compaction left, sorted: the segments that count, in order
    of their offsets, and what a writer does first: `remove`, then `rename`."""

    segments: list[SegmentFile]
    remove: list[Path]
    rename: list[tuple[Path, Path]]


class SegmentScan(NamedTuple):
    """A segment as it is on disk: `sound_bytes` of `size` are whole and checked."""

    file: SegmentFile
    size: int
    sound_bytes: int
    stop: Stop
    next_offset: int
    batches: int
    records: int
    max_timestamp: int
    epochs: list[tuple[int, int]]


class Piece(NamedTuple):
    """Some whole batches: `view` starts at byte `position` of the file. Valid until the next."""

    position: int
    view: memoryview
    scan: Scan


def segment_name(base_offset: int) -> str:
    """The file's name: 20 digits and `.log`."""
    return f"{base_offset:020d}.log"


def companions(log: Path) -> list[Path]:
    """The index files of a segment: derived, and stale as soon as the segment changes.

    pykcoord writes none: Kafka rebuilds those that are missing when it opens the log.
    """
    stem = log.name.split(".", 1)[0]
    return [
        path
        for suffix in (".index", ".timeindex", ".txnindex")
        if (path := log.with_name(stem + suffix)).exists()
    ]


def plan(directory: Path) -> Plan:
    """Sorts out the leftovers as Kafka's LogLoader does.

    `.deleted` and `.cleaned` go; a `.swap` replaces the segments whose offsets it covers, unless a
    `.cleaned` at or below it shows that its group was not complete. Raises LogError where all that
    is there are segments in compressed files: it would pass for a log that holds nothing.
    """
    by_suffix: dict[str, list[SegmentFile]] = {"": [], ".deleted": [], ".cleaned": [], ".swap": []}
    indexes: list[Path] = []
    paths = sorted(directory.iterdir())
    for path in paths:
        if match := _NAME.fullmatch(path.name):
            base_offset, kind, suffix = int(match[1]), match[2], match[3] or ""
            if kind == "log":
                by_suffix[suffix].append(SegmentFile(base_offset, path))
            elif suffix:
                indexes.append(path)
    if not any(by_suffix.values()):
        _refuse_packed(directory, [path for path in paths if _PACKED.fullmatch(path.name)])
    remove = [file.path for file in by_suffix[".deleted"] + by_suffix[".cleaned"]] + indexes
    first_cleaned = min((file.base_offset for file in by_suffix[".cleaned"]), default=None)
    swaps: list[SegmentFile] = []
    for file in by_suffix[".swap"]:
        if first_cleaned is not None and file.base_offset >= first_cleaned:
            remove.append(file.path)
        else:
            swaps.append(file)
    if not swaps:
        return Plan(by_suffix[""], remove, [])
    replaced_from = swaps[0].base_offset
    replaced_to = max(_end_of_swap(file) for file in swaps)
    kept: list[SegmentFile] = []
    for file in by_suffix[""]:
        if replaced_from <= file.base_offset < replaced_to:
            # Last what names the others: an index without a log belongs to none.
            remove += [*companions(file.path), file.path]
        else:
            kept.append(file)
    rename = [(file.path, file.path.with_suffix("")) for file in swaps]
    return Plan(sorted(kept + swaps), remove, rename)


def _refuse_packed(directory: Path, packed: list[Path]) -> None:
    if packed:
        suffix = packed[0].suffix
        command = _UNPACK[suffix[1:]]
        raise LogError(
            f"{directory}: no segment (.log) here, but {len(packed)} in compressed files, such as "
            f"{packed[0].name}; unpack them first: {command} {directory}/*.log{suffix}"
        )


def refuse_packed_file(path: Path) -> None:
    """Raises LogError where the file is a segment that somebody has compressed, by its name."""
    if _PACKED.fullmatch(path.name):
        command = _UNPACK[path.suffix[1:]]
        raise LogError(f"{path}: a compressed file; unpack it first: {command} {path}")


def pieces(
    file: SegmentFile,
    expected_offset: int,
    limit_bytes: int | None = None,
    leader_epoch: int = -1,
    start: int = 0,
    piece_bytes: int = CHUNK_BYTES,
) -> Iterator[Piece]:
    """Reads and checks the file from byte `start` on, up to `limit_bytes` or its end; a piece is up
    to `piece_bytes` long, or one batch.

    The last piece says by its `scan.stop` whether all of it was sound. Every piece's view is of the
    same buffer: use it before asking for the next.
    """
    descriptor = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(descriptor).st_size
        limit = size if limit_bytes is None else min(size, limit_bytes)
        buffer = bytearray(max(0, min(piece_bytes, limit - start)))
        position, filled = start, 0
        while True:
            with naming(file.path):
                filled += _fill(descriptor, buffer, filled, position, limit)
            view = memoryview(buffer)[:filled]
            found = scan(view, 0, expected_offset, file.base_offset, leader_epoch)
            yield Piece(position, view[: found.end], found)
            expected_offset = found.next_offset
            if found.epochs:
                leader_epoch = found.epochs[-1][0]
            at_end = position + filled >= limit
            if found.stop == Stop.SHORT and not at_end:
                if position + found.end + found.needed > limit:
                    return
            elif found.stop != Stop.END or at_end:
                return
            rest = buffer[found.end : filled]
            position, filled = position + found.end, len(rest)
            if found.needed > len(buffer):
                buffer = bytearray(found.needed)
            buffer[:filled] = rest
    finally:
        os.close(descriptor)


def scan_segment(
    file: SegmentFile,
    expected_offset: int,
    leader_epoch: int = -1,
    start: int = 0,
    replay: Replay | None = None,
) -> SegmentScan:
    """Checks the file from byte `start` on. Reads it once, sequentially, and keeps none of it:
    `replay` gets what is sound, in chunks of whole uncompressed batches."""
    batches = records = 0
    sound_bytes = start
    max_timestamp = -1
    epochs: list[tuple[int, int]] = []
    stop = Stop.END
    size = file.path.stat().st_size  # a running server may write more meanwhile
    for piece in pieces(file, expected_offset, size, leader_epoch, start):
        if replay is not None:
            for chunk in plain(file, piece):
                replay(chunk)
        sound_bytes = piece.position + piece.scan.end
        batches += piece.scan.batches
        records += piece.scan.records
        max_timestamp = max(max_timestamp, piece.scan.max_timestamp)
        epochs += piece.scan.epochs
        expected_offset, stop = piece.scan.next_offset, piece.scan.stop
    return SegmentScan(
        file, size, sound_bytes, stop, expected_offset, batches, records, max_timestamp, epochs
    )


def plain(file: SegmentFile, piece: Piece) -> Iterator[bytes]:
    """The batches of a piece, those that are compressed re-framed uncompressed.

    Attributes but for the codec, offsets, timestamps and producer stay as they are, so that replay
    sees what it would have seen. Raises CorruptLogError if a records area cannot be expanded.
    """
    view, position = piece.view, 0
    ready: list[bytes] = []
    ready_bytes = 0
    while position < len(view):
        compressed_at = next_compressed(view, position)
        if compressed_at > position:
            ready.append(bytes(view[position:compressed_at]))
        if compressed_at < len(view):
            ready.append(expanded(file, piece, compressed_at))
            position = compressed_at + header(view, compressed_at).size
        else:
            position = len(view)
        ready_bytes += len(ready[-1])
        if ready_bytes >= CHUNK_BYTES or position == len(view):
            yield ready[0] if len(ready) == 1 else b"".join(ready)
            ready.clear()
            ready_bytes = 0


def expanded(file: SegmentFile, piece: Piece, position: int) -> bytes:
    batch = header(piece.view, position)
    whole = piece.view[position : position + batch.size]
    codec = batch.attributes & 7
    try:
        return reframe(whole, compression.decompress(codec, whole[61:]))
    except ValueError as error:
        name = compression.CODECS[codec] if codec < len(compression.CODECS) else f"codec {codec}"
        raise CorruptLogError(
            file.path,
            piece.position + position,
            batch.base_offset,
            f"the CRC is right, but the records cannot be expanded ({name}: {error})",
            "its writer wrote it so: restore the file, or cut it there by hand",
        ) from None


def _end_of_swap(file: SegmentFile) -> int:
    found = scan_segment(file, file.base_offset)
    if found.stop != Stop.END:
        reason = "a compaction was about to finish with this file, and the file is damaged"
        advice = "delete it if the segments it replaces are still there, else restore it"
        raise CorruptLogError(file.path, found.sound_bytes, found.next_offset, reason, advice)
    return found.next_offset


def _fill(descriptor: int, buffer: bytearray, filled: int, position: int, limit: int) -> int:
    wanted = min(len(buffer), limit - position)
    start = filled
    while filled < wanted:
        room = memoryview(buffer)[filled:wanted]
        count = os.preadv(descriptor, [room], position + filled)
        if count == 0:
            # The file was cut while it was read: what is there is all there is.
            break
        filled += count
    return filled - start
