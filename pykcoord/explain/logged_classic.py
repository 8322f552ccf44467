"""A classic group, from one GroupMetadata record to the next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pykcoord.events import Event
from pykcoord.explain.logged_members import (
    LoggedMember,
    Places,
    change_text,
    figures_of,
    member_of,
    places_of,
)
from pykcoord.record_fields import assignment_of, subscription_of

__all__ = ["ClassicGroup"]


class ClassicGroup:
    """Made at its first record in the log, or of what it was before: its `epoch` (the generation)
    and its `members`. `moved` are partitions that the newest generation gave to another member than
    the one before."""

    def __init__(
        self, group_id: str, gap: int, epoch: int = -1,
        members: Mapping[str, LoggedMember] | None = None,
    ) -> None:  # fmt: skip
        self.group_id = group_id
        self.epoch = epoch
        self.members = dict(members or {})
        self.moved: Places = frozenset()
        self._gap = gap
        self._at_ms = 0
        # Since when nobody has had what somebody had, as generations tell it.
        self._free: dict[tuple[str, int], int] = {}

    def take(self, value: Mapping[str, Any], at_ms: int, gap: int) -> Iterator[Event]:
        """The next record, and what it tells."""
        members = dict(map(_member, value["members"]))
        generation = int(value["generation"])
        before, is_first = self.members, self.epoch < 0
        is_known = not is_first and gap == self._gap
        passed = max(0, generation - self.epoch - 1)
        moved_on = generation != self.epoch and bool(before or members)
        joined_ms = _joined_ms(value, self._at_ms, at_ms)
        self.members, self.epoch, self._gap, self._at_ms = members, generation, gap, at_ms
        if is_first:
            yield self._first(generation, at_ms)
            if generation <= 1 and members:
                yield from self._generation({}, members, 0, joined_ms, at_ms, is_known, value)
            return
        if moved_on:
            count = passed if is_known else 0
            yield from self._generation(before, members, count, joined_ms, at_ms, is_known, value)
        else:
            yield from self._changes(before, members, at_ms)

    def _changes(
        self, before: dict[str, LoggedMember], members: dict[str, LoggedMember], at_ms: int
    ) -> Iterator[Event]:
        """Who came, went, or goes on under another id."""
        replaced = _replaced(before, members)
        for old, new in replaced.items():
            yield self._event("instance_replaced", at_ms, member=members[new].of, detail=old)
        for at, one in before.items():
            if at not in members and at not in replaced:
                yield self._event("member_gone", at_ms, "logged_absence", one.of)
        for at, one in members.items():
            if at not in before and at not in replaced.values():
                yield self._event("member_joined", at_ms, member=one.of)

    def _first(self, generation: int, at_ms: int) -> Event:
        if generation <= 1:
            return self._event("group_created", at_ms)
        return self._event("log_begins", at_ms, count=len(self.members))

    def _generation(
        self, before: dict[str, LoggedMember], members: dict[str, LoggedMember], passed: int,
        joined_ms: int, at_ms: int, is_known: bool, value: Mapping[str, Any],
    ) -> Iterator[Event]:  # fmt: skip
        replaced = _replaced(before, members)
        went = [one for at, one in before.items() if at not in members and at not in replaced]
        back = set(replaced.values())
        came = [one for at, one in members.items() if at not in before and at not in back]
        cause, member, detail = self._cause(before, members, came, went, replaced)
        yield Event(
            "rebalance_started", self.group_id, self.epoch - 1 - passed, cause,
            member, passed or None, detail, joined_ms, None,
            None if is_known or not before else {"after_gap": 1},
        )  # fmt: skip
        yield from self._changes(before, members, joined_ms)
        yield self._event(
            "join_phase_completed", joined_ms, count=len(members), detail=value["protocol"]
        )
        figures = self._figures(before, replaced, at_ms, is_known)
        if members:
            leader = members.get(value["leader"] or "")
            yield Event(
                "group_stable", self.group_id, self.epoch, None, leader.of if leader else None,
                len(members), None, at_ms, None, figures,
            )  # fmt: skip

    def _cause(
        self, before: dict[str, LoggedMember], members: dict[str, LoggedMember],
        came: list[LoggedMember], went: list[LoggedMember], replaced: Mapping[str, str],
    ) -> tuple[str, Any, str | None]:  # fmt: skip
        """What changed, the member that it is about if it is one, and the rest in words."""
        if came or went:
            changed = [*came, *went]
            return "logged_members", changed[0].of if len(changed) == 1 else None, None
        same = [(one, before[at]) for at, one in members.items() if at in before]
        same += [(members[new], before[old]) for old, new in replaced.items()]
        others = [(new, text) for new, old in same if (text := change_text(old.topics, new.topics))]
        if others:
            return "logged_subscription", others[0][0].of, others[0][1]
        if _all(members) & self._free.keys():
            return "logged_step", None, None
        if grown := _grown(_all(before), _all(members)):
            return "logged_partitions", None, grown
        return "logged_nothing", None, None

    def _figures(
        self, before: dict[str, LoggedMember], replaced: Mapping[str, str], at_ms: int,
        is_known: bool,
    ) -> dict[str, int] | None:  # fmt: skip
        had, has = _all(before), _all(self.members)
        self.moved = frozenset()
        free_ms = [at_ms - self._free.pop(one) for one in has & self._free.keys()]
        for one in had - has:
            self._free.setdefault(one, at_ms)
        if not is_known or not (had or free_ms):
            return None
        owned_before = {at: one.owned for at, one in before.items()}
        owned = {at: one.owned for at, one in self.members.items()}
        kept = {place: replaced.get(at, at) for at, of in owned_before.items() for place in of}
        self.moved = frozenset(
            place for at, of in owned.items() for place in of if kept.get(place, at) != at
        )
        figures = figures_of(owned_before, owned, replaced)
        if free_ms:
            figures |= {"unowned": len(free_ms), "unowned_ms": sum(free_ms)}
            figures["longest_ms"] = max(free_ms)
        return figures

    def _event(
        self, kind: str, at_ms: int, cause: str | None = None, member: Any = None,
        count: int | None = None, detail: str | None = None,
    ) -> Event:  # fmt: skip
        return Event(kind, self.group_id, self.epoch, cause, member, count, detail, at_ms)


def _member(value: Mapping[str, Any]) -> tuple[str, LoggedMember]:
    assignment = assignment_of(value["assignment"]) if value["assignment"] else None
    subscription = subscription_of(value["subscription"]) if value["subscription"] else None
    member_id = str(value["memberId"])
    return member_id, LoggedMember(
        member_of(member_id, value),
        frozenset(subscription["topics"]) if subscription else frozenset(),
        places_of(assignment["partitions"]) if assignment else frozenset(),
    )


def _replaced(before: dict[str, LoggedMember], members: dict[str, LoggedMember]) -> dict[str, str]:
    """Static members that go on under another member id: the old one, and the new one."""
    named = {
        one.of.group_instance_id: at
        for at, one in members.items()
        if one.of.group_instance_id and at not in before
    }
    return {
        at: named[one.of.group_instance_id]
        for at, one in before.items()
        if at not in members and one.of.group_instance_id in named
    }


def _all(members: Mapping[str, LoggedMember]) -> Places:
    return frozenset(place for one in members.values() for place in one.owned)


def _grown(before: Places, after: Places) -> str | None:
    """Topics of which partitions were given out that were not before: `orders 6 9`."""
    words = []
    for topic in sorted({topic for topic, _ in after - before}):
        was = 1 + max((one for name, one in before if name == topic), default=-1)
        now = 1 + max(one for name, one in after if name == topic)
        if now > was:
            words.append(f"{topic} {was} {now}")
    return ", ".join(words) or None


def _joined_ms(value: Mapping[str, Any], before_ms: int, at_ms: int) -> int:
    """When the join phase was over: a group enters the state in which its record is written then,
    and the record has that time (Kafka's classes; states section 1). Where it has none, or none
    that can be, the record's own."""
    entered = int(value.get("currentStateTimestamp", -1))
    return entered if before_ms <= entered <= at_ms else at_ms
