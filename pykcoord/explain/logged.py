"""Events of groups as the log of `__consumer_offsets` alone tells them, of whatever coordinator.

A log has what was decided, not why: who is a member, who owns what, what was committed. The events
made of it are those of `pykcoord.events`, with causes of their own (`logged_...`), which say what
changed and claim nothing beyond it. Heartbeats, join phases, refused requests, and whether a member
left or fell silent are in no record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from pykcoord._native import dump
from pykcoord.events import Event
from pykcoord.explain.logged_classic import ClassicGroup
from pykcoord.explain.logged_consumer import ConsumerGroup
from pykcoord.explain.logged_members import LoggedMember
from pykcoord.explain.logged_offsets import LoggedOffsets
from pykcoord.log._record_batch import header

__all__ = ["LoggedEvents", "logged_events"]

_CONTROL = 1 << 5
_CONSUMER = frozenset(
    {
        "ConsumerGroupMetadata",
        "ConsumerGroupMemberMetadata",
        "ConsumerGroupTargetAssignmentMember",
        "ConsumerGroupTargetAssignmentMetadata",
        "ConsumerGroupCurrentMemberAssignment",
        "ConsumerGroupRegularExpression",
    }
)
_Group = ClassicGroup | ConsumerGroup


class _Before(NamedTuple):
    """A group before a batch, some records of which may take it apart and make it anew."""

    kind: type[_Group]
    epoch: int
    members: dict[str, LoggedMember]


def logged_events(
    chunks: Iterable[bytes], names: Mapping[bytes, str], group_id: str | None = None
) -> Iterator[Event]:
    """Events of one partition's log, whose whole, checked, uncompressed batches are `chunks`;
    `names`: topics by their ids. Of one group only, where it is named. Raises ReplayError for a
    record that cannot be read."""
    logged = LoggedEvents(names.get)
    wanted = group_id.encode("utf-8", "surrogatepass") if group_id is not None else b""
    for chunk in chunks:
        # Most chunks do not name the group, and decoding costs far more than the search.
        if wanted in chunk or logged.awaits_markers:
            yield from logged.take(chunk, wanted)
        else:
            logged.skip(chunk)


class LoggedEvents:
    """One partition. `name_of` gives a topic's name by its id, None where it is not known."""

    def __init__(self, name_of: Callable[[bytes], str | None]) -> None:
        self._name_of = name_of
        self._groups: dict[str, _Group] = {}
        self._offsets = LoggedOffsets()
        self._next_offset: int | None = None
        self._gap = 0
        """Counts the places where offsets are missing: compaction took what was there."""

    @property
    def awaits_markers(self) -> bool:
        """Whether a transaction has offsets that are not committed yet."""
        return self._offsets.awaits_markers

    def skip(self, chunk: bytes) -> None:
        """A chunk that names no group of interest: only its offsets are looked at."""
        for _, _ in self._batches(chunk):
            pass

    def take(self, chunk: bytes, wanted: bytes = b"") -> Iterator[Event]:
        """The events of one more chunk. `wanted`: only of that group, by its id in UTF-8."""
        for start, end in self._batches(chunk):
            batch = chunk[start:end]
            if wanted in batch or self._offsets.awaits_markers:
                yield from self._take_batch(batch, wanted.decode("utf-8", "surrogatepass"))

    def _batches(self, chunk: bytes) -> Iterator[tuple[int, int]]:
        at = 0
        while at < len(chunk):
            batch = header(chunk, at)
            whole = batch.record_count == batch.last_offset_delta + 1
            if self._next_offset not in (None, batch.base_offset) or not whole:
                self._gap += 1
            if self._next_offset is None and batch.base_offset > 0:
                self._gap += 1
            self._next_offset = batch.base_offset + batch.last_offset_delta + 1
            yield at, at + batch.size
            at += batch.size

    def _take_batch(self, batch: bytes, wanted: str) -> Iterator[Event]:
        kinds_before: dict[str, _Before | None] = {}
        at_ms = 0
        for _, _, attributes, _, producer_id, _, _, at_ms, kind, key, value in dump(batch):
            if attributes & _CONTROL:
                yield from self._offsets.ended(producer_id, at_ms, is_commit=kind == "COMMIT")
                continue
            group_id = str(key.get("group", key.get("groupId", "")))
            if wanted and group_id != wanted:
                continue
            if kind == "OffsetCommit":
                self._offsets.take(group_id, key, value, at_ms, producer_id)
            elif kind == "GroupMetadata" or kind in _CONSUMER:
                if group_id not in kinds_before:
                    kinds_before[group_id] = _before(self._groups.get(group_id))
                before = kinds_before[group_id]
                yield from self._take_record(group_id, kind, key, value, at_ms, before)
        for group_id, before in kinds_before.items():
            yield from self._after_batch(group_id, before, at_ms)
        yield from self._offsets.after_batch(at_ms)

    def _take_record(
        self, group_id: str, kind: str, key: Mapping[str, Any], value: Any, at_ms: int,
        before: _Before | None,
    ) -> Iterator[Event]:  # fmt: skip
        """`before`: the group as it was before this batch."""
        group = self._groups.get(group_id)
        if kind == "GroupMetadata":
            if value is None:
                if isinstance(group, ClassicGroup):
                    del self._groups[group_id]
                return
            if not isinstance(group, ClassicGroup):
                group = ClassicGroup(group_id, self._gap)
                if before is not None and before.kind is ConsumerGroup:
                    group = ClassicGroup(group_id, self._gap, before.epoch, before.members)
                    yield _migrated("downgraded", group, at_ms)
                self._groups[group_id] = group
            for event in group.take(value, at_ms, self._gap):
                yield event
                if event.kind == "group_stable":
                    self._offsets.moved(group_id, group.moved)
            return
        if not isinstance(group, ConsumerGroup):
            if value is None:
                return  # of a group that goes, or that was compacted away
            group = ConsumerGroup(group_id, self._name_of, self._gap)
            if before is not None and before.kind is ClassicGroup:
                known = before.epoch, before.members
                group = ConsumerGroup(group_id, self._name_of, self._gap, *known)
                yield _migrated("upgraded", group, at_ms)
            self._groups[group_id] = group
        if kind == "ConsumerGroupMetadata" and value is None:
            del self._groups[group_id]
            return
        yield from group.take(kind, str(key.get("memberId", "")), value, at_ms, self._gap)
        self._offsets.moved(group_id, group.moved)

    def _after_batch(self, group_id: str, before: _Before | None, at_ms: int) -> Iterator[Event]:
        after = self._groups.get(group_id)
        if isinstance(after, ConsumerGroup):
            yield from after.after_batch(at_ms)
        if before is not None and after is None:
            self._offsets.forget(group_id)
            yield Event(
                "group_deleted", group_id, before.epoch, "logged_deletion", timestamp_ms=at_ms
            )


def _before(group: _Group | None) -> _Before | None:
    return _Before(type(group), group.epoch, dict(group.members)) if group is not None else None


def _migrated(cause: str, group: _Group, at_ms: int) -> Event:
    count = len(group.members)
    return Event(
        "group_migrated", group.group_id, group.epoch, cause, None, count, timestamp_ms=at_ms
    )
