"""Groups and offsets with lag, as rows: what is shown, exported and measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from pykcoord.clock import Clock, monotonic_seconds
from pykcoord.kafka.ends import End
from pykcoord.kafka.view import ClusterView
from pykcoord.lag import EndTimes
from pykcoord.watch.model import Source, WatchedGroup, WatchedMember, WatchedOffset

__all__ = ["GroupRow", "OffsetRow", "Tables"]

_NO_ID = bytes(16)


class OffsetRow(NamedTuple):
    """A committed offset beside the end of its partition. `end` and `lag` are None where the end is
    not known, or too old; `why` says why then. `owner` is the member that has the partition, as its
    client id, and `member` that member; `end_age_ms` since the leader told the end. `behind_ms`:
    for how long the end has been beyond what is committed, at least so long where `is_at_least`;
    None: not known."""

    committed: WatchedOffset
    end: int | None
    lag: int | None
    end_age_ms: int | None
    owner: str
    why: str
    member: WatchedMember | None = None
    behind_ms: int | None = None
    is_at_least: bool = False


class GroupRow(NamedTuple):
    """A group with the lag of all its offsets. `lag` is of those whose ends are known, `unknown`
    how many are not; both None and 0 for a group without offsets. `end_age_ms`: of the oldest."""

    group: WatchedGroup
    offsets: list[OffsetRow]
    lag: int | None
    unknown: int
    end_age_ms: int | None


class Tables:
    """Made of a source and what is known of ends at one moment."""

    def __init__(
        self,
        source: Source,
        view: ClusterView,
        ends: Mapping[tuple[str, int], End],
        oldest_ms: int,
        wanted: Callable[[str], bool],
        times: EndTimes | None = None,
    ) -> None:
        self._view = view
        self._times = times or EndTimes()
        self._ends = ends
        self._oldest_ms = oldest_ms
        self._now = monotonic_seconds()
        self.as_of_ms = Clock().now_ms()
        """When the rows were made, ms since the epoch."""
        by_group: dict[str, list[WatchedOffset]] = {}
        for offset in source.offsets():
            if wanted(offset.group_id):
                by_group.setdefault(offset.group_id, []).append(offset)
        groups = [group for group in source.groups() if wanted(group.group_id)]
        self.groups = [self._row(group, by_group.get(group.group_id, [])) for group in groups]
        """In the order of their ids."""

    def _row(self, group: WatchedGroup, offsets: Iterable[WatchedOffset]) -> GroupRow:
        owners = {
            (topic, partition): member
            for member in group.members
            for topic, partitions in member.owned.items()
            for partition in partitions
        }
        rows = [self._offset_row(of, owners.get((of.topic, of.partition))) for of in offsets]
        known = [row.lag for row in rows if row.lag is not None]
        ages = [row.end_age_ms for row in rows if row.end_age_ms is not None]
        return GroupRow(
            group, rows, sum(known) if known else None, len(rows) - len(known),
            max(ages, default=None),
        )  # fmt: skip

    def _offset_row(self, of: WatchedOffset, member: WatchedMember | None) -> OffsetRow:
        owner = (member.client_id or member.member_id) if member is not None else ""
        topic = self._view.topics.get(of.topic)
        if topic is None:
            deleted = of.topic in self._view.deleted.values()
            why = "topic deleted" if deleted else "topic not visible"
            return OffsetRow(of, None, None, None, owner, why)
        if of.topic_id != _NO_ID and topic.topic_id.bytes != of.topic_id:
            return OffsetRow(of, None, None, None, owner, "of an older topic")
        if of.partition not in topic.leaders:
            return OffsetRow(of, None, None, None, owner, "no such partition")
        end = self._ends.get((of.topic, of.partition))
        if end is None:
            return OffsetRow(of, None, None, None, owner, "end not known")
        age_ms = round((self._now - end.as_of) * 1000)
        if age_ms > self._oldest_ms:
            return OffsetRow(of, None, None, age_ms, owner, "end too old")
        why = "beyond the end" if of.offset > end.offset else ""
        lag = max(0, end.offset - of.offset)
        place = (of.topic, of.partition)
        behind = self._times.behind_ms(place, of.offset, self.as_of_ms) if lag else (0, False)
        return OffsetRow(of, end.offset, lag, age_ms, owner, why, member, *behind)

    def document(self) -> dict[str, Any]:
        """All of it as plain data, for JSON."""
        return {
            "as_of_ms": self.as_of_ms,
            "cluster_id": self._view.cluster_id,
            "groups": {row.group.group_id: _group_document(row) for row in self.groups},
        }


def _group_document(row: GroupRow) -> dict[str, Any]:
    group = row.group
    offsets: dict[str, dict[str, Any]] = {}
    for one in row.offsets:
        of = one.committed
        offsets.setdefault(of.topic, {})[str(of.partition)] = {
            "offset": of.offset,
            "leader_epoch": of.leader_epoch,
            "metadata": of.metadata,
            "commit_timestamp_ms": of.commit_timestamp,
            "pending": of.is_pending,
            "end": one.end,
            "end_age_ms": one.end_age_ms,
            "lag": one.lag,
            "behind_ms": one.behind_ms,
            "behind_is_at_least": one.is_at_least,
            "owner": one.owner or None,
            "why": one.why or None,
        }
    return {
        "type": group.type,
        "state": group.state,
        "epoch": group.epoch,
        "protocol": group.protocol,
        "members": [
            {
                **member._asdict(),
                "owned": {topic: list(of) for topic, of in member.owned.items()},
                "subscribed": list(member.subscribed),
            }
            for member in group.members
        ],
        "lag": row.lag,
        "partitions_without_lag": row.unknown,
        "offsets": offsets,
    }
