"""What clients of a cluster saw, and whether a cluster that is right can have shown it.

Three rules. Each offset is a register that is linear: an order of all commits and reads exists,
each within its time, in which every read sees the last commit. In one generation a partition has
one owner. Once a member of a generation has its partitions, no older generation is told or commits:
a generation that nobody has partitions of is not in the log yet, and may come again with another
leader after a crash. Times are seconds of one clock of the process that saw it.
"""

from __future__ import annotations

import bisect
import itertools
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

__all__ = ["Commit", "Fetch", "History", "Join", "Share", "Violation", "judge"]

NOTHING = -1
"""What OffsetFetch says where nothing is committed."""

NO_GENERATION = -1
"""Of a commit by no member."""


@dataclass(frozen=True, slots=True)
class Commit:
    """An OffsetCommit of one partition. `ended` is None if no answer came, or an error: it may
    have been written, or may be yet. No two commits of a partition have the same offset."""

    group: str
    partition: int
    offset: int
    generation: int
    began: float
    ended: float | None
    by: str = ""
    """HOST:PORT of who was asked."""


@dataclass(frozen=True, slots=True)
class Fetch:
    """An OffsetFetch of one partition that was answered without an error."""

    group: str
    partition: int
    offset: int
    began: float
    ended: float
    by: str = ""


@dataclass(frozen=True, slots=True)
class Join:
    """A JoinGroup that was answered with a generation."""

    group: str
    generation: int
    member: str
    began: float
    ended: float


@dataclass(frozen=True, slots=True)
class Share:
    """A SyncGroup that was answered with partitions."""

    group: str
    generation: int
    member: str
    partitions: tuple[int, ...]
    began: float
    ended: float


Seen = Commit | Fetch | Join | Share
_Kind = TypeVar("_Kind", Commit, Fetch, Join, Share)
_KINDS: dict[str, type[Seen]] = {kind.__name__: kind for kind in (Commit, Fetch, Join, Share)}


@dataclass(frozen=True, slots=True)
class Violation:
    """What no cluster that is right shows. `rule`: `offset`, `owner` or `generation`."""

    rule: str
    group: str
    text: str


class History:
    """What was seen, in the order in which it ended."""

    def __init__(self, seen: Iterable[Seen] = ()) -> None:
        self.seen = list(seen)

    def write(self, path: Path) -> None:
        """One JSON object a line, to be judged again by `read`."""
        with path.open("w") as lines:
            for one in self.seen:
                lines.write(json.dumps({"kind": type(one).__name__, **asdict(one)}) + "\n")

    @staticmethod
    def read(path: Path) -> History:
        """Raises ValueError with the number of a line that `write` does not write."""
        seen = []
        for number, line in enumerate(path.read_text().splitlines(), 1):
            try:
                fields = json.loads(line)
                kind = _KINDS[fields.pop("kind")]
                if kind is Share:
                    fields["partitions"] = tuple(fields["partitions"])
                seen.append(kind(**fields))
            except (ValueError, KeyError, TypeError) as error:
                raise ValueError(f"{path}: line {number} is no line of a history") from error
        return History(seen)


def judge(history: History) -> list[Violation]:
    """All violations; none if a cluster that is right can have shown this."""
    return [*_offsets(history), *_owners(history), *_generations(history)]


def _only(history: History, kind: type[_Kind]) -> list[_Kind]:
    return [one for one in history.seen if isinstance(one, kind)]


@dataclass(slots=True)
class _Value:
    """One offset of a register: its commit, and the reads that saw it.

    The register has it at some moment between `first_end` and `last_begin`, where that is an
    interval (`is_kept`: then during all of it); Gibbons and Korach, Testing Shared Memories, 1997.
    """

    offset: int
    written: float
    first_end: float
    last_begin: float

    @property
    def is_kept(self) -> bool:
        return self.first_end < self.last_begin

    @property
    def low(self) -> float:
        return min(self.first_end, self.last_begin)

    @property
    def high(self) -> float:
        return max(self.first_end, self.last_begin)


def _offsets(history: History) -> Iterator[Violation]:
    commits: dict[tuple[str, int], list[Commit]] = defaultdict(list)
    fetches: dict[tuple[str, int], list[Fetch]] = defaultdict(list)
    for commit in _only(history, Commit):
        commits[commit.group, commit.partition].append(commit)
    for fetch in _only(history, Fetch):
        fetches[fetch.group, fetch.partition].append(fetch)
    for register in sorted(commits.keys() | fetches.keys()):
        for text in _not_linear(commits[register], fetches[register]):
            yield Violation("offset", register[0], f"partition {register[1]}: {text}")


def _not_linear(commits: Sequence[Commit], fetches: Sequence[Fetch]) -> Iterator[str]:
    start = -math.inf
    values = {NOTHING: _Value(NOTHING, start, start, start)}
    for commit in commits:
        if commit.offset in values:
            raise ValueError(f"two commits of offset {commit.offset}")
        ended = math.inf if commit.ended is None else commit.ended
        values[commit.offset] = _Value(commit.offset, commit.began, ended, commit.began)
    read: set[int] = set()
    for fetch in fetches:
        value = values.get(fetch.offset)
        if value is None:
            yield f"{fetch.offset} was read at {fetch.ended:.3f} s, and nobody committed it"
            continue
        if fetch.ended < value.written:
            yield (
                f"{fetch.offset} was read at {fetch.ended:.3f} s, before it was committed at "
                f"{value.written:.3f} s"
            )
        read.add(fetch.offset)
        value.first_end = min(value.first_end, fetch.ended)
        value.last_begin = max(value.last_begin, fetch.began)
    # What was not acknowledged and not read may never have been written.
    counted = [v for v in values.values() if v.first_end < math.inf or v.offset in read]
    yield from _conflicts(counted)


def _conflicts(values: Sequence[_Value]) -> Iterator[str]:
    """Pairs that no order has: two that are kept and overlap, one within another that is kept."""
    kept = sorted((v for v in values if v.is_kept), key=lambda value: value.low)
    for before, after in itertools.pairwise(kept):
        if after.low < before.high:
            yield (
                f"{before.offset} was there at {before.low:.3f} s and was read again in a request "
                f"that began at {before.high:.3f} s; between them, at {after.low:.3f} s, it was "
                f"{after.offset}"
            )
    lows = [value.low for value in kept]
    for value in values:
        if value.is_kept:
            continue
        at = _last_below(lows, value.low)
        if at >= 0 and value.high < kept[at].high:
            yield (
                f"{value.offset} was committed between {value.low:.3f} s and {value.high:.3f} s, "
                f"and {kept[at].offset}, which was there at {kept[at].low:.3f} s, was read again "
                f"in a request that began at {kept[at].high:.3f} s"
            )


def _last_below(rising: Sequence[float], value: float) -> int:
    """The index of the last that is less; -1 for none."""
    return bisect.bisect_left(rising, value) - 1


def _owners(history: History) -> Iterator[Violation]:
    owners: dict[tuple[str, int, int], str] = {}
    for share in _only(history, Share):
        for partition in share.partitions:
            owner = owners.setdefault((share.group, share.generation, partition), share.member)
            if owner != share.member:
                text = (
                    f"generation {share.generation}: partition {partition} was given to {owner} "
                    f"and to {share.member}"
                )
                yield Violation("owner", share.group, text)


def _generations(history: History) -> Iterator[Violation]:
    given: dict[str, list[tuple[float, int]]] = defaultdict(list)
    for share in sorted(_only(history, Share), key=lambda share: share.ended):
        of_group = given[share.group]
        highest = of_group[-1][1] if of_group else NO_GENERATION
        of_group.append((share.ended, max(highest, share.generation)))

    def later(group: str, generation: int, at: float) -> int | None:
        """A later generation that somebody had partitions of by then."""
        below = _last_below([ended for ended, _ in given[group]], at)
        highest = given[group][below][1] if below >= 0 else NO_GENERATION
        return highest if highest > generation else None

    for join in _only(history, Join):
        if (highest := later(join.group, join.generation, join.began)) is not None:
            text = (
                f"a JoinGroup that began at {join.began:.3f} s was answered with generation "
                f"{join.generation}, after generation {highest}"
            )
            yield Violation("generation", join.group, text)
    for commit in _only(history, Commit):
        if commit.ended is None or commit.generation == NO_GENERATION:
            continue
        if (highest := later(commit.group, commit.generation, commit.began)) is not None:
            text = (
                f"partition {commit.partition}: a commit of generation {commit.generation} that "
                f"began at {commit.began:.3f} s was acknowledged, after generation {highest}"
            )
            yield Violation("generation", commit.group, text)
