"""A consumer group (KIP-848), from record to record: its log tells more than a classic group's, for
each step of a member towards its target is in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from pykcoord.events import Event, EventMember
from pykcoord.explain.logged_members import LoggedMember, Places, change_text, member_of

__all__ = ["ConsumerGroup"]

_STABLE, _UNREVOKED = 0, 1
_AWAY = -2
"""The epoch of a static member that has ended for a while (KIP-848)."""


class ConsumerGroup:
    """Made at its first record in the log, or of what it was before: its `epoch` and its `members`.
    `moved` are partitions that came to another owner by the newest record."""

    def __init__(
        self, group_id: str, name_of: Callable[[bytes], str | None], gap: int, epoch: int = -1,
        members: Mapping[str, LoggedMember] | None = None,
    ) -> None:  # fmt: skip
        self.group_id = group_id
        self.epoch = epoch
        self.members = dict(members or {})
        self.moved: Places = frozenset()
        self._name_of = name_of
        self._gap = gap
        self._hash: int | None = None
        self._came: list[EventMember] = []
        self._went: list[EventMember] = []
        self._other: list[tuple[EventMember, str]] = []
        self._away: dict[str, int] = {}
        self._last = {at: _name(of) for of in self.members.values() for at in of.owned}
        self._free: dict[tuple[str, int], int] = {}
        self._gains: dict[str, dict[str, int]] = {}
        self._given_up: dict[str, int] = {}
        # Who has come to its target in this epoch: its instance, or its id.
        self._settled: set[str] = set()

    def take(
        self, kind: str, member_id: str, value: Mapping[str, Any] | None, at_ms: int, gap: int
    ) -> Iterator[Event]:
        """The next record, and what it tells."""
        self.moved = frozenset()
        if kind == "ConsumerGroupMemberMetadata":
            self._member(member_id, value)
        elif kind == "ConsumerGroupMetadata" and value is not None:
            yield from self._bumped(value, at_ms, gap)
        elif kind == "ConsumerGroupCurrentMemberAssignment":
            yield from self._assigned(member_id, value, at_ms)

    def after_batch(self, at_ms: int) -> Iterator[Event]:
        """What changed without another epoch: a static member that goes on as another."""
        if self.epoch < 0:
            return
        yield from self._instances(at_ms)
        for member in self._went:
            yield self._event("member_gone", at_ms, "logged_absence", member)
        for member in self._came:
            yield self._event("member_joined", at_ms, member=member)
        self._came, self._went = [], []

    def _member(self, member_id: str, value: Mapping[str, Any] | None) -> None:
        known = self.members.get(member_id)
        if value is None:
            if known is not None:
                del self.members[member_id]
                self._went.append(known.of)
            return
        member = member_of(member_id, value)
        topics = set(value["subscribedTopicNames"] or ())
        if pattern := value.get("subscribedTopicRegex"):
            topics.add(f"/{pattern}/")
        owned = known.owned if known is not None else frozenset()
        self.members[member_id] = LoggedMember(member, frozenset(topics), owned)
        if known is None:
            self._came.append(member)
        elif text := change_text(known.topics, frozenset(topics)):
            self._other.append((member, text))

    def _bumped(self, value: Mapping[str, Any], at_ms: int, gap: int) -> Iterator[Event]:
        before, self.epoch = self.epoch, int(value["epoch"])
        hash_before, self._hash = self._hash, value.get("metadataHash")
        is_known = gap == self._gap and before >= 0
        self._gap = gap
        if before == self.epoch and not (self._came or self._went):
            return  # a classic group before, which goes on
        self._settled.clear()
        if before < 0:
            if self.epoch > 2:  # the first epochs of a group are written at once
                self._came, self._went, self._other = [], [], []
                yield self._event("log_begins", at_ms, count=len(self.members))
                return
            yield self._event("group_created", at_ms)
        yield from self._instances(at_ms)
        cause, member, detail = self._cause(hash_before)
        yield Event(
            "group_epoch_bumped", self.group_id, self.epoch, cause, member, None, detail, at_ms,
            None, None if is_known or before < 0 else {"after_gap": 1},
        )  # fmt: skip
        for one in self._went:
            yield self._event("member_gone", at_ms, "logged_absence", one)
        for one in self._came:
            yield self._event("member_joined", at_ms, member=one)
        self._came, self._went, self._other = [], [], []
        yield self._event("target_computed", at_ms, count=len(self.members))

    def _cause(self, hash_before: int | None) -> tuple[str, EventMember | None, str | None]:
        changed = [*self._came, *self._went]
        if changed:
            return "logged_members", changed[0] if len(changed) == 1 else None, None
        if self._other:
            return "logged_subscription", *self._other[0]
        if hash_before is not None and self._hash != hash_before:
            return "logged_topics", None, None
        return "logged_nothing", None, None

    def _instances(self, at_ms: int) -> Iterator[Event]:
        """Static members that went and came under one instance id."""
        named = {one.group_instance_id: one for one in self._came if one.group_instance_id}
        for one in list(self._went):
            new = named.get(one.group_instance_id) if one.group_instance_id else None
            if new is None:
                continue
            self._went.remove(one)
            self._came.remove(new)
            away_ms = self._away.pop(one.member_id, None)
            yield Event(
                "instance_replaced", self.group_id, self.epoch, None, new, None, one.member_id,
                at_ms, at_ms - away_ms if away_ms is not None else None,
            )  # fmt: skip

    def _assigned(
        self, member_id: str, value: Mapping[str, Any] | None, at_ms: int
    ) -> Iterator[Event]:
        known = self.members.get(member_id)
        had = known.owned if known is not None else frozenset()
        if value is None:
            self._give_up(had, at_ms)
            if known is not None:
                self.members[member_id] = known._replace(owned=frozenset())
            return
        if known is None:
            return  # its member was compacted away
        keeps = self._places(value["assignedPartitions"])
        gives = self._places(value["partitionsPendingRevocation"])
        self.members[member_id] = known._replace(owned=keeps | gives)
        given_up = had - keeps - gives
        self._give_up(given_up, at_ms)
        self._given_up[member_id] = self._given_up.get(member_id, 0) + len(given_up)
        self._get(member_id, (keeps | gives) - had, at_ms)
        if value["memberEpoch"] == _AWAY:
            self._away[member_id] = at_ms
            yield self._event("instance_away", at_ms, member=known.of)
        elif value["state"] == _UNREVOKED and gives:
            yield self._event("revocation_awaited", at_ms, member=known.of, count=len(gives))
        elif value["state"] == _STABLE and value["memberEpoch"] == self.epoch:
            figures = self._gains.pop(member_id, None)
            given_up_before = self._given_up.pop(member_id, 0)
            if figures is not None:
                figures["least"] = max(0, figures["moved"] - given_up_before)
            if _name(known) in self._settled and not any((figures or {}).values()):
                return
            self._settled.add(_name(known))
            yield Event(
                "member_reconciled", self.group_id, self.epoch, None, known.of, len(keeps), None,
                at_ms, None, figures,
            )  # fmt: skip

    def _give_up(self, places: Places, at_ms: int) -> None:
        for place in places:
            self._free[place] = at_ms

    def _get(self, member_id: str, places: Places, at_ms: int) -> None:
        if not places:
            return
        gains = self._gains.setdefault(
            member_id, {"moved": 0, "unowned": 0, "unowned_ms": 0, "longest_ms": 0}
        )
        moved, name = set(), _name(self.members[member_id])
        for place in places:
            if self._last.get(place, name) != name:
                gains["moved"] += 1
                moved.add(place)
            self._last[place] = name
            free_ms = at_ms - self._free.pop(place, at_ms)
            if free_ms > 0:
                gains["unowned"] += 1
                gains["unowned_ms"] += free_ms
                gains["longest_ms"] = max(gains["longest_ms"], free_ms)
        self.moved = frozenset(moved)

    def _places(self, topics: Iterable[Mapping[str, Any]] | None) -> Places:
        found: set[tuple[str, int]] = set()
        for of in topics or ():
            name = self._name_of(of["topicId"]) or of["topicId"].hex()
            found.update((name, int(one)) for one in of["partitions"])
        return frozenset(found)

    def _event(
        self, kind: str, at_ms: int, cause: str | None = None, member: Any = None,
        count: int | None = None,
    ) -> Event:  # fmt: skip
        return Event(kind, self.group_id, self.epoch, cause, member, count, None, at_ms)


def _name(member: LoggedMember) -> str:
    """Who it is, also under another member id."""
    return member.of.group_instance_id or member.of.member_id
