"""What state a partition's files are in, and how they are put right.

`examine` only looks; `repair` is the one place that cuts or moves what is on disk, and it must
never do so with sound batches unless the operator said so. A torn tail (nothing sound behind the
first bad byte) is what a crash leaves of a write that was never acknowledged.
"""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import NamedTuple

from pykcoord.errors import CorruptLogError
from pykcoord.log import checkpoint, durable
from pykcoord.log._record_batch import Stop, find_sound, header
from pykcoord.log.naming import naming
from pykcoord.log.protocol import Cut, OnCorruption
from pykcoord.log.segment import (
    Plan,
    Replay,
    SegmentFile,
    SegmentScan,
    companions,
    plan,
    scan_segment,
    segment_name,
)
from pykcoord.log.snapshot import SNAPSHOT_FILE, Covered

__all__ = [
    "ADVICE",
    "Damage",
    "Found",
    "cut_in_memory",
    "examine",
    "examine_file",
    "missing",
    "reason_of",
    "repair",
    "set_aside",
    "stopped",
]

ADVICE = (
    "restore the file from a copy, or give --on-corruption truncate: a start then cuts the log "
    "there as Kafka does, and keeps what it cuts as .corrupt-N; what only reads stops there"
)
_OLD_FORMAT_ADVICE = (
    "let a broker of Kafka 0.11 to 3.9 write it anew, as docs/migration.md says; it is never cut"
)
_COMPRESSED = {
    b"\x1f\x8b\x08": "gz",
    b"\x28\xb5\x2f\xfd": "zst",
    b"\xfd7zXZ\x00": "xz",
    b"BZh": "bz2",
    b"\x04\x22\x4d\x18": "lz4",
    b"PK\x03\x04": "zip",
}
"""How a compressed file begins. No segment does: its base offset would be beyond 2^57."""
_SHORT_LOG_ADVICE = (
    "bring the files back from a copy, or start with --on-corruption truncate to go on without "
    "(the snapshot is kept as .corrupt-N)"
)


class Damage(NamedTuple):
    """Where the sound part of a partition ends before its bytes do.

    `offset` is the log's next offset there; `sound_at` the first sound batch behind the damage,
    None for a torn tail; `lost_bytes` all bytes from there to the end of the log. Not
    `may_be_cut`: it is no damage, but a file of another format.
    """

    file: Path
    position: int
    offset: int
    reason: str
    sound_at: tuple[Path, int] | None
    lost_bytes: int
    advice: str = ADVICE
    may_be_cut: bool = True

    def error(self) -> CorruptLogError:
        """The refusal."""
        reason = self.reason
        if self.sound_at is not None:
            file, position = self.sound_at
            where = "" if file == self.file else f" of {file.name}"
            reason += f"; sound batches follow at byte {position}{where}"
        return CorruptLogError(self.file, self.position, self.offset, reason, self.advice)


class Found(NamedTuple):
    """A partition as it is on disk. `segments` holds the sound ones; at `damage` the last of them
    is only partly so, and `behind` are the segments after it."""

    directory: Path
    plan: Plan
    segments: list[SegmentScan]
    behind: list[SegmentFile]
    next_offset: int
    epochs: list[tuple[int, int]]
    damage: Damage | None

    @property
    def leader_epoch(self) -> int:
        """The highest leader epoch that wrote here; -1 if none did."""
        return self.epochs[-1][0] if self.epochs else -1

    @property
    def end(self) -> tuple[Path, int]:
        """Where what is sound ends: a file, and the byte in it. The folder where there is none."""
        if self.damage is not None:
            return self.damage.file, self.damage.position
        if self.segments:
            return self.segments[-1].file.path, self.segments[-1].size
        return self.directory, 0


def examine(directory: Path, replay: Replay | None = None, covered: Covered | None = None) -> Found:
    """Checks every byte of a partition. Changes nothing.

    `replay` gets what is sound, in order: it is what is left when damage has been cut. What is
    `covered` by a snapshot that fits the files is neither read nor handed on.
    """
    return _examine(directory, plan(directory), checkpoint.read_epochs(directory), replay, covered)


def examine_file(file: SegmentFile) -> Found:
    """Checks one segment file by itself. Changes nothing."""
    return _examine(file.path.parent, Plan([file], [], []), [])


def missing(end: tuple[Path, int], next_offset: int, covered: Covered) -> CorruptLogError | None:
    """What is wrong if the log ends below what a snapshot of it is of: the files were on disk when
    that was written, so records are gone. It ends at `end`, a file and the byte in it."""
    if covered.offset <= next_offset:
        return None
    reason = (
        f"the log ends here, and reached offset {covered.offset} when {SNAPSHOT_FILE} beside it "
        "was written: what came between is gone"
    )
    return CorruptLogError(*end, next_offset, reason, _SHORT_LOG_ADVICE)


def cut_in_memory(found: Found, on_corruption: OnCorruption) -> Cut | None:
    """What `repair` would do, for a log that is only read."""
    damage = found.damage
    if damage is None:
        return None
    is_lost = damage.sound_at is not None and on_corruption == "refuse"
    if is_lost or not damage.may_be_cut:
        raise damage.error()
    return Cut(damage.file, damage.position, damage.offset, damage.lost_bytes, damage.reason)


def repair(found: Found, on_corruption: OnCorruption) -> Cut | None:
    """Finishes an interrupted compaction and cuts damage away, durably.

    Raises CorruptLogError if sound batches stand behind the damage and `on_corruption` is
    "refuse"; nothing was changed then. What is called `.swap` in `found` has its name afterwards.
    """
    cut = cut_in_memory(found, on_corruption)
    for path in found.plan.remove:
        path.unlink(missing_ok=True)
    for path, name in found.plan.rename:
        os.replace(path, name)
    if found.plan.remove or found.plan.rename:
        durable.sync_directory(found.directory)
    damage = found.damage
    if cut is None or damage is None:
        return cut
    renamed = dict(found.plan.rename)
    kept_as: list[Path] = []
    broken = renamed.get(damage.file, damage.file)
    whole = any(file.path == damage.file for file in found.behind)
    if damage.sound_at is not None and not whole:
        kept_as.append(_copy_tail(broken, damage.position))
    # Later segments first: were the cut done and this not, the hole would pass for a compacted one.
    for file in found.behind:
        kept_as += _put_aside(renamed.get(file.path, file.path))
    durable.sync_directory(found.directory)
    if not whole:
        for index in companions(broken):
            index.unlink()
        _truncate(broken, damage.position)
        durable.sync_directory(found.directory)
    return cut._replace(file=broken, kept_as=tuple(kept_as))


def set_aside(path: Path) -> Path:
    """Renames a file so that it is not read any more, and returns its name. The folder is synced
    by the caller."""
    aside = _free_name(path)
    os.rename(path, aside)
    return aside


def reason_of(stop: Stop, rest: bytes, next_offset: int, segment_base: int) -> str:
    """Why a scan stopped at the first byte of `rest`, in words for the operator."""
    length = int.from_bytes(rest[8:12], "big", signed=True)
    if stop == Stop.SHORT:
        needed = length + 12 if len(rest) >= 12 else 61
        return f"a batch of {needed} bytes is cut off after {len(rest)}"
    if not any(rest):
        return f"{len(rest)} zero bytes"
    if stop == Stop.LENGTH:
        return f"impossible batch length {length}"
    if stop == Stop.MAGIC:
        old = ", of Kafka before 0.11" if _stands_by_itself(stop, rest) else ""
        return f"magic {rest[16]}{old}; only RecordBatch v2 (magic 2) is read"
    if stop == Stop.CRC:
        return "the CRC of the batch is wrong"
    batch = header(rest, 0)
    if stop == Stop.COUNT:
        return f"{batch.record_count} records in a batch of {batch.last_offset_delta + 1} offsets"
    return (
        f"a sound batch of base offset {batch.base_offset} does not fit; this one, or the one "
        f"before it, has a wrong offset (next is {next_offset}, the segment's first {segment_base})"
    )


class Stopped(NamedTuple):
    """Why a scan of a segment stopped, and what to do; None: as with any damage. Not `may_be_cut`:
    it is no damage, but another format."""

    reason: str
    advice: str | None = None
    may_be_cut: bool = True


def stopped(stop: Stop, rest: bytes, at: int, next_offset: int, segment_base: int) -> Stopped:
    """At byte `at` of a segment, which goes on with `rest`."""
    for start, suffix in _COMPRESSED.items():
        if at == 0 and rest.startswith(start):
            advice = f"rename it to end in .log.{suffix}, and unpack it; it is never cut"
            return Stopped("a compressed file", advice, may_be_cut=False)
    reason = reason_of(stop, rest, next_offset, segment_base)
    if stop == Stop.MAGIC and _stands_by_itself(stop, rest):
        return Stopped(reason, _OLD_FORMAT_ADVICE, may_be_cut=False)
    if stop == Stop.OFFSET and (base_offset := header(rest, 0).base_offset) < segment_base:
        name = segment_name(base_offset)
        return Stopped(reason, f"if the file was renamed, call it {name} again; if not, {ADVICE}")
    return Stopped(reason)


def _examine(
    directory: Path,
    files: Plan,
    known_epochs: list[tuple[int, int]],
    replay: Replay | None = None,
    covered: Covered | None = None,
) -> Found:
    segments: list[SegmentScan] = []
    epochs: list[tuple[int, int]] = []
    next_offset = files.segments[0].base_offset if files.segments else 0
    start = 0
    if covered is not None:
        skipped = zip(files.segments, covered.closed, strict=False)
        segments = [_unread(file, size) for file, (_, size, _) in skipped]
        epochs, next_offset, start = list(covered.epochs), covered.offset, covered.active[1]
    damage: Damage | None = None
    behind: list[SegmentFile] = []
    for index, file in enumerate(files.segments[len(segments) :], len(segments)):
        behind = files.segments[index + 1 :]
        if file.base_offset < next_offset and not start:
            reason = f"the segment starts below the log's next offset, {next_offset}"
            damage = _damage(file, 0, next_offset, reason, [file, *behind])
            behind = [file, *behind]
            break
        last_epoch = epochs[-1][0] if epochs else -1
        expected = max(next_offset, file.base_offset)
        found = scan_segment(file, expected, last_epoch, start, replay)
        start = 0
        segments.append(found)
        epochs += found.epochs
        next_offset = found.next_offset
        if found.stop != Stop.END or found.sound_bytes != found.size:
            damage = _broken(found, behind)
            break
    else:
        behind = []
    epochs = _merged(known_epochs, epochs, next_offset)
    return Found(directory, files, segments, behind, next_offset, epochs, damage)


def _unread(file: SegmentFile, size: int) -> SegmentScan:
    """A segment that was checked when the snapshot that covers it was written."""
    return SegmentScan(file, size, size, Stop.END, -1, 0, 0, -1, [])


def _merged(
    known: list[tuple[int, int]], read: list[tuple[int, int]], next_offset: int
) -> list[tuple[int, int]]:
    """The checkpoint's epochs as far as the log goes, then those that only the batches show."""
    merged = [(epoch, start) for epoch, start in known if start < next_offset]
    last = merged[-1][0] if merged else -1
    return merged + [(epoch, start) for epoch, start in read if epoch > last]


def _broken(found: SegmentScan, behind: list[SegmentFile]) -> Damage:
    with open(found.file.path, "rb") as file:
        file.seek(found.sound_bytes)
        rest = file.read(found.size - found.sound_bytes)
    sound_at: tuple[Path, int] | None = None
    stop, start, base = found.stop, found.sound_bytes, found.file.base_offset
    at = 0 if _stands_by_itself(stop, rest) else find_sound(rest, 1, base)
    if at >= 0:
        sound_at = (found.file.path, start + at)
    why = stopped(stop, rest, start, found.next_offset, base)
    damage = _damage(found.file, start, found.next_offset, why.reason, behind)
    return damage._replace(
        sound_at=sound_at or damage.sound_at,
        lost_bytes=damage.lost_bytes + len(rest),
        advice=why.advice or ADVICE,
        may_be_cut=why.may_be_cut,
    )


def _damage(
    file: SegmentFile, position: int, offset: int, reason: str, behind: list[SegmentFile]
) -> Damage:
    sound_at: tuple[Path, int] | None = None
    lost_bytes = 0
    for later in behind:
        lost_bytes += later.path.stat().st_size
        if sound_at is None:
            at = find_sound(later.path.read_bytes(), 0, later.base_offset)
            sound_at = (later.path, at) if at >= 0 else None
    return Damage(file.path, position, offset, reason, sound_at, lost_bytes)


def _stands_by_itself(stop: Stop, rest: bytes) -> bool:
    """Whether the batch that the scan refused is whole, with a right CRC, and only out of place."""
    if stop in (Stop.OFFSET, Stop.COUNT):
        return True
    # Message formats 0 and 1 (before Kafka 0.11): CRC-32 of all that follows it.
    length = int.from_bytes(rest[8:12], "big")
    if stop != Stop.MAGIC or rest[16] > 1 or length + 12 > len(rest):
        return False
    return zlib.crc32(rest[16 : 12 + length]) == int.from_bytes(rest[12:16], "big")


def _copy_tail(path: Path, position: int) -> Path:
    aside = _free_name(path)
    with (
        open(path, "rb") as source,
        naming(aside),
        open(aside, "xb", opener=durable.private) as target,
    ):
        source.seek(position)
        while chunk := source.read(1 << 20):
            target.write(chunk)
        target.flush()
        os.fsync(target.fileno())
    return aside


def _put_aside(path: Path) -> list[Path]:
    for index in companions(path):
        index.unlink()
    if path.stat().st_size == 0:
        path.unlink()
        return []
    return [set_aside(path)]


def _free_name(path: Path) -> Path:
    # Kafka deletes here. It ignores names that do not end in a suffix of its own.
    number = 1
    while (aside := path.with_name(f"{path.name}.corrupt-{number}")).exists():
        number += 1
    return aside


def _truncate(path: Path, position: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        with naming(path):
            os.ftruncate(descriptor, position)
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
