"""Every CRC and frame of a log, for `pykcoord log verify`. Changes nothing.

Unlike a start, which stops at the first damage, this goes on behind it and names each place.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from pykcoord.log import checkpoint, recovery, snapshot
from pykcoord.log._record_batch import Stop, find_sound, scan
from pykcoord.log.folders import TOPIC, missing_of, partition_directories
from pykcoord.log.reader import segment_files
from pykcoord.log.segment import SegmentFile, scan_segment
from pykcoord.log.snapshot import SnapshotError

__all__ = ["Problem", "Report", "verify"]

_NO_FOLDER = "its groups are lost without it: bring it back from a copy"
_NO_SNAPSHOT = "the next start reads the log instead; delete it"
_TORN = "nothing sound follows, as after a crash: the next start cuts it and says so"


class Problem(NamedTuple):
    """One place that is broken: `position` is the byte in `file`, `offset` where the log would go
    on there (-1 where it is all of the file, which is no segment), `reason` what is wrong, `advice`
    what to do."""

    file: Path
    position: int
    offset: int
    reason: str
    advice: str

    def __str__(self) -> str:
        place = f"byte {self.position}, offset {self.offset}: " if self.offset >= 0 else ""
        return f"{self.file}: {place}{self.reason}; {self.advice}"


@dataclass
class Report:
    """What `verify` saw: sound `batches` and `records`, all `files`, their `size_bytes`, and
    every place that is broken, in `problems`."""

    files: int = 0
    batches: int = 0
    records: int = 0
    size_bytes: int = 0
    problems: list[Problem] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        """Whether nothing is broken."""
        return not self.problems


def verify(path: Path | str) -> Report:
    """Checks a data directory, a `__consumer_offsets-N` folder or a segment file.

    Raises LogError if there is no log, OSError if it cannot be read.
    """
    report = Report()
    report.problems += _missing_folders(Path(path))
    for files in segment_files(Path(path)).values():
        problems: list[Problem] = []
        next_offset = files[0].base_offset if files else 0
        for file in files:
            start = len(problems)
            next_offset, any_sound = _verify_segment(file, next_offset, report, problems)
            if any_sound:
                # Sound batches after them: what was broken up to here is no torn tail.
                problems[:start] = [_not_torn(problem) for problem in problems[:start]]
        if files and Path(path).is_dir():
            problems += _verify_snapshot(files[-1].path, next_offset)
        report.problems += problems
    return report


def _missing_folders(path: Path) -> list[Problem]:
    known = checkpoint.read_properties(path) if path.is_dir() else None
    if known is None or not known.is_whole:
        return []
    missing = missing_of(known.partitions, partition_directories(path))
    return [
        Problem(path / f"{TOPIC}-{number}", 0, -1, "the folder is missing", _NO_FOLDER)
        for number in missing
    ]


def _not_torn(problem: Problem) -> Problem:
    return problem._replace(advice=recovery.ADVICE) if problem.advice is _TORN else problem


def _verify_snapshot(last: Path, next_offset: int) -> list[Problem]:
    """Whether all of it can be read, and the log, read to the end of the file `last`, still reaches
    as far. One that is stale otherwise is no damage: a start says so."""
    directory = last.parent
    try:
        covered = snapshot.read_covered(directory)
        for _ in snapshot.chunks(directory):
            pass
    except FileNotFoundError:
        return []
    except SnapshotError as error:
        return [Problem(error.path, 0, -1, error.reason, _NO_SNAPSHOT)]
    known = checkpoint.read_properties(directory.parent)
    is_others = known is not None and known.topic_id.hex() != covered.topic_id
    if covered.offset <= next_offset or is_others:
        return []
    # A server that runs may have written on since the segments were read, and then the snapshot.
    found = recovery.examine(directory)
    end = found.end
    if found.damage is None:
        next_offset = found.next_offset
    else:  # which is reported already, and sound batches behind it were counted
        end = last, last.stat().st_size
    lost = recovery.missing(end, next_offset, covered)
    if lost is None:
        return []
    return [Problem(lost.file, lost.position, lost.offset, lost.reason, lost.advice)]


def _verify_segment(
    file: SegmentFile, next_offset: int, report: Report, problems: list[Problem]
) -> tuple[int, bool]:
    """The next offset behind it, and whether it has any sound batch."""
    if file.base_offset < next_offset:
        reason = f"the segment starts below the log's next offset, {next_offset}"
        problems.append(Problem(file.path, 0, next_offset, reason, recovery.ADVICE))
    first = scan_segment(file, max(next_offset, file.base_offset))
    report.files += 1
    report.size_bytes += first.size
    report.batches += first.batches
    report.records += first.records
    any_sound = first.batches > 0
    next_offset = first.next_offset
    if first.stop == Stop.END and first.sound_bytes == first.size:
        return next_offset, any_sound
    with open(file.path, "rb") as opened:
        opened.seek(first.sound_bytes)
        rest = opened.read()
    stop, position = first.stop, 0
    while True:
        at = first.sound_bytes + position
        why = recovery.stopped(stop, rest[position:], at, next_offset, file.base_offset)
        found_at = find_sound(rest, position + 1, file.base_offset)
        torn = found_at < 0 and stop not in (Stop.OFFSET, Stop.COUNT)
        advice = why.advice or (_TORN if torn else recovery.ADVICE)
        problems.append(Problem(file.path, at, next_offset, why.reason, advice))
        if found_at < 0:
            return next_offset, any_sound
        any_sound = True
        found = scan(rest, found_at, file.base_offset, file.base_offset)
        report.batches += found.batches
        report.records += found.records
        next_offset = max(next_offset, found.next_offset)
        if found.stop == Stop.END:
            return next_offset, any_sound
        stop, position = found.stop, found.end
