"""The committed offsets of a group at any time, as the log of `__consumer_offsets` tells it.

For `pykcoord offsets` and for programs that look into a log; nothing that serves requests. A
transaction's offsets count from its marker on. The log tells what was committed, and when; not by
which member, nor whether a client, an expiry or a deletion removed an offset.

>>> from pykcoord.log import LogReader, Past                                  # doctest: +SKIP
>>> past = Past(LogReader.open("pykcoord-data"), partition_of("billing", 50)) # doctest: +SKIP
>>> offsets_at(changes(past.read(), "billing"), 1_795_243_004_074)            # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from pykcoord._native import dump

__all__ = ["Change", "CommittedOffset", "Offsets", "changes", "offsets_at"]

_CONTROL = 1 << 5
_NO_TOPIC_ID = bytes(16)


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """An OffsetCommitValue. `leader_epoch` is -1 where none was said, `topic_id` 16 bytes, all zero
    where none was; `committed_ms` is the time of its record, in ms since the epoch."""

    offset: int
    leader_epoch: int
    metadata: str
    committed_ms: int
    topic_id: bytes


Offsets = dict[tuple[str, int], CommittedOffset]
"""Of a group, by topic and partition."""


class Change(NamedTuple):
    """From `at_ms` on (ms since the epoch) this is the group's offset; None: it has none."""

    at_ms: int
    topic: str
    partition: int
    committed: CommittedOffset | None


def changes(chunks: Iterable[bytes], group_id: str) -> Iterator[Change]:
    """What the records of `chunks` (as `LogReader.read` and `Past.read` give them) change for a
    group, in their order. Raises ReplayError for a record that cannot be read."""
    name = group_id.encode("utf-8", "surrogatepass")
    group = _Group()
    for chunk in chunks:
        # Most chunks do not name the group, and decoding costs far more than the search.
        if name not in chunk and not group.pending:
            continue
        for _, _, attributes, _, producer_id, _, offset, at_ms, kind, key, value in dump(chunk):
            if attributes & _CONTROL:
                yield from group.ended(producer_id, at_ms, is_commit=kind == "COMMIT")
            elif kind == "OffsetCommit" and key["group"] == group_id:
                change = _change(at_ms, key, value)
                if producer_id < 0:
                    group.changed(offset, change)
                    yield change
                else:
                    group.pending.setdefault(producer_id, []).append((offset, change))


def offsets_at(of_group: Iterable[Change], at_ms: int | None = None) -> Offsets:
    """The offsets of the group as its changes leave them at a time (ms since the epoch, included);
    None: at the end."""
    found: Offsets = {}
    for change in of_group:
        if at_ms is not None and change.at_ms > at_ms:
            continue
        place = (change.topic, change.partition)
        if change.committed is None:
            found.pop(place, None)
        else:
            found[place] = change.committed
    return dict(sorted(found.items()))


class _Group:
    """What transactions have written, by producer, and where in the log each offset was set."""

    def __init__(self) -> None:
        self.pending: dict[int, list[tuple[int, Change]]] = {}
        self._set_at: dict[tuple[str, int], int] = {}

    def changed(self, at: int, change: Change) -> None:
        place = (change.topic, change.partition)
        self._set_at[place] = at
        if change.committed is None:  # what is pending there goes, too (offsets.md section 4)
            for producer, waiting in list(self.pending.items()):
                left = [one for one in waiting if (one[1].topic, one[1].partition) != place]
                self.pending[producer] = left

    def ended(self, producer_id: int, at_ms: int, *, is_commit: bool) -> Iterator[Change]:
        """What a transaction changes: the offset that stands later in the log stays."""
        waiting = self.pending.pop(producer_id, [])
        for at, change in waiting if is_commit else []:
            place = (change.topic, change.partition)
            if self._set_at.get(place, -1) < at:
                self._set_at[place] = at
                yield change._replace(
                    at_ms=at_ms,
                    committed=change.committed and replace(change.committed, committed_ms=at_ms),
                )


def _change(at_ms: int, key: dict[str, Any], value: dict[str, Any] | None) -> Change:
    committed = None
    if value is not None:
        committed = CommittedOffset(
            offset=value["offset"],
            leader_epoch=value.get("leaderEpoch", -1),
            metadata=value["metadata"],
            committed_ms=at_ms,
            topic_id=value.get("topicId") or _NO_TOPIC_ID,
        )
    return Change(at_ms, key["topic"], key["partition"], committed)
