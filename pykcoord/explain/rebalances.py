"""From events to rebalances: each with its cause, its phases, who came and went, what moved."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pykcoord.events import Event, EventMember
from pykcoord.explain.text import who

__all__ = ["LOGGED", "Arrival", "Rebalance", "Trigger", "rebalances_of"]

LOGGED = "logged_"
"""With this begin the causes of which only a log tells."""
# How long after a change of topics clients may notice it: `metadata.max.age.ms`, and some.
_TOPICS_MS = 330_000
# A client that comes back within so long is the one that went.
_RETURN_MS = 600_000
# For how long a rebalance is looked at as the work of a coordinator that has just started.
_FAILOVER_MS = 120_000


@dataclass(slots=True)
class Trigger:
    """Why a rebalance began. `cause` is the event's, made exact: `left`, `removed_by_admin` for a
    `member_left`; `topics_changed` for a leader that rejoined because topics changed;
    `cooperative_step` for metadata that only says which partitions were given up."""

    cause: str
    member: EventMember | None = None
    silent_ms: int | None = None
    detail: str | None = None
    topics: list[Event] = field(default_factory=list)
    returned_after_ms: int | None = None
    after_failover_ms: int | None = None
    is_first: bool = False
    """The group had no members before."""


@dataclass(slots=True)
class Arrival:
    """A member that joined in a join phase."""

    at_ms: int
    member: EventMember
    is_new: bool


@dataclass(slots=True)
class Rebalance:
    """One rebalance of a group. Times in ms since the epoch; None: not yet, or not known.

    `joined_ms` is the end of the join phase, or when targets were computed; `ended_ms` when every
    member could have its assignment. `interrupted`: another one began before. `figures` are those
    of the event `group_stable`, or the sums of all `member_reconciled`.

    Of one that only a log tells (`is_logged`): so many generations before it got no assignment
    (`skipped`), records before it are missing (`is_after_gap`), of a partition that moved nothing
    was committed for `commit_gap_ms` at most, and `back` are those of `came` that had gone before.
    """

    group_id: str
    kind: str
    started_ms: int
    generation_before: int
    trigger: Trigger
    generation_after: int | None = None
    joined_ms: int | None = None
    ended_ms: int | None = None
    interrupted: bool = False
    members: int | None = None
    protocol: str | None = None
    leader: EventMember | None = None
    last: EventMember | None = None
    arrivals: list[Arrival] = field(default_factory=list)
    came: list[EventMember] = field(default_factory=list)
    back: list[EventMember] = field(default_factory=list)
    went: list[Event] = field(default_factory=list)
    figures: dict[str, int] = field(default_factory=dict)
    refused: list[Event] = field(default_factory=list)
    revoking: dict[str, Event] = field(default_factory=dict)
    revoked: list[tuple[EventMember, int, int]] = field(default_factory=list)
    awaited: set[str] = field(default_factory=set)
    skipped: int = 0
    is_after_gap: bool = False
    commit_gap_ms: int | None = None

    @property
    def is_logged(self) -> bool:
        """Only a log tells of it (`pykcoord.explain.logged`): it began at some time before."""
        return self.trigger.cause.startswith(LOGGED)

    @property
    def waited_ms(self) -> int | None:
        """For how long all others waited for the last member."""
        if self.kind != "classic" or self.last is None or self.joined_ms is None:
            return None
        others = [one.at_ms for one in self.arrivals if one.member.member_id != self.last.member_id]
        return self.joined_ms - max(others, default=self.started_ms) if others else None

    @property
    def unowned_ms(self) -> int:
        """Milliseconds in which partitions had no owner, summed over the partitions: but for those
        in which the group had no members."""
        return 0 if self.trigger.is_first else self.figures.get("unowned_ms", 0)

    @property
    def abandoned_ms(self) -> int:
        """As `unowned_ms`, and the group had no members."""
        return self.figures.get("unowned_ms", 0) - self.unowned_ms

    @property
    def duration_ms(self) -> int | None:
        """From its start to its end."""
        return None if self.ended_ms is None else self.ended_ms - self.started_ms

    def fields(self) -> dict[str, Any]:
        """As JSON has it."""
        trigger = self.trigger
        return {
            "kind": self.kind,
            "started_ms": self.started_ms,
            "joined_ms": self.joined_ms,
            "ended_ms": self.ended_ms,
            "interrupted": self.interrupted,
            "generation_before": self.generation_before,
            "generation_after": self.generation_after,
            "cause": trigger.cause,
            "member": _member(trigger.member),
            "silent_ms": trigger.silent_ms,
            "detail": trigger.detail,
            "topics": [{"topic": one.detail, **(one.figures or {})} for one in trigger.topics],
            "returned_after_ms": trigger.returned_after_ms,
            "after_failover_ms": trigger.after_failover_ms,
            "members": self.members,
            "protocol": self.protocol,
            "leader": _member(self.leader),
            "last": _member(self.last),
            "waited_ms": self.waited_ms,
            "came": [_member(member) for member in self.came],
            "went": [
                {"cause": one.cause, "silent_ms": one.silent_ms, "member": _member(one.member)}
                for one in self.went
            ],
            "revoked": [
                {"member": _member(member), "partitions": partitions, "waited_ms": waited}
                for member, partitions, waited in self.revoked
            ],
            **(
                {"skipped": self.skipped, "commit_gap_ms": self.commit_gap_ms}
                if self.is_logged
                else {}
            ),
            **self.figures,
        }


def _member(member: EventMember | None) -> dict[str, Any] | None:
    if member is None:
        return None
    names = ("member_id", "group_instance_id", "client_id", "client_host", "reason")
    return {name: value for name in names if (value := getattr(member, name)) is not None}


class _Assembly:
    """One group's rebalances, made event by event."""

    def __init__(self) -> None:
        self.done: list[Rebalance] = []
        self._open: Rebalance | None = None
        self._gone: dict[str, Event] = {}
        self._left: dict[str, int] = {}
        self._joined: list[Arrival] = []
        self._last_gone: Event | None = None
        self._topics: list[Event] = []
        self._loaded_ms: int | None = None
        self._has_members: bool | None = None  # None: not known

    def take(self, event: Event) -> None:
        """One more."""
        handle = getattr(self, f"_{event.kind}", None)
        if handle is not None:
            handle(event)

    def _topics_changed(self, event: Event) -> None:
        self._topics = [*self._topics[-20:], event]

    def _shard_loaded(self, event: Event) -> None:
        if self.done:
            self._loaded_ms = event.timestamp_ms

    def _rebalance_started(self, event: Event) -> None:
        current = self._current()
        if current is not None:
            current.interrupted = True
        trigger = self._trigger(event)
        self._open = Rebalance(
            event.group_id, "classic", event.timestamp_ms, event.generation_id, trigger
        )
        self._open.arrivals = [one for one in self._joined if one.at_ms >= event.timestamp_ms]
        self._begin(event)

    def _group_epoch_bumped(self, event: Event) -> None:
        current = self._current()
        if current is not None and current.ended_ms is None:
            current.interrupted = True
        self._open = Rebalance(
            event.group_id,
            "consumer",
            event.timestamp_ms,
            event.generation_id - 1,
            self._trigger(event),
            generation_after=event.generation_id,
        )
        self._has_members = True
        self._begin(event)

    def _begin(self, event: Event) -> None:
        assert self._open is not None
        self.done.append(self._open)
        if self._open.is_logged:  # who came and went follows
            self._open.skipped = event.count or 0
            self._open.is_after_gap = bool(event.figures)
            self._joined = []
            return
        self._open.came = [
            one.member for one in self._joined if one.is_new and one.at_ms >= event.timestamp_ms
        ]
        gone = self._last_gone
        ids = [of.member.member_id for of in (gone, event) if of is not None and of.member]
        if gone is not None and len(ids) == 2 and ids[0] == ids[1]:
            self._open.went.append(gone)
        self._joined = []

    def _current(self) -> Rebalance | None:
        of = self._open
        return of if of is not None and (of.kind == "consumer" or of.ended_ms is None) else None

    def _member_joined(self, event: Event) -> None:
        self._arrived(event, is_new=True)

    def _member_rejoined(self, event: Event) -> None:
        self._arrived(event, is_new=False)

    def _arrived(self, event: Event, *, is_new: bool) -> None:
        """In the join phase of a rebalance, or before the next one."""
        assert event.member is not None
        arrival = Arrival(event.timestamp_ms, event.member, is_new)
        current = self._current()
        follows = current is not None and (current.kind == "classic" or current.is_logged)
        if current is None or current.joined_ms is not None or not follows:
            self._joined.append(arrival)
            return
        current.arrivals.append(arrival)
        if is_new:
            current.came.append(event.member)
            left_ms = self._left.get(who(event.member))
            if left_ms is not None and event.timestamp_ms - left_ms <= _RETURN_MS:
                current.back.append(event.member)

    def _member_gone(self, event: Event) -> None:
        assert event.member is not None
        self._last_gone = event
        self._gone[event.member.member_id] = event
        self._left[who(event.member)] = event.timestamp_ms
        current = self._current()
        follows = current is not None and (current.kind == "classic" or current.is_logged)
        if current is not None and follows and current.joined_ms is None:
            current.went.append(event)
        if current is not None and (waited := current.revoking.pop(event.member.member_id, None)):
            self._revoked(current, waited, event)
        if len(self._gone) > 10_000:
            self._gone.clear()

    def _join_phase_completed(self, event: Event) -> None:
        current = self._current()
        if current is None or current.kind != "classic":
            return
        current.joined_ms = event.timestamp_ms
        current.generation_after = event.generation_id
        current.members = event.count
        current.protocol = event.detail
        current.last = event.member
        self._has_members = bool(event.count)
        if event.count == 0:
            current.ended_ms = event.timestamp_ms

    def _group_stable(self, event: Event) -> None:
        current = self._current()
        if current is None or current.kind != "classic":
            return
        current.ended_ms = event.timestamp_ms
        current.members, current.leader = event.count, event.member
        current.figures = dict(event.figures or {})

    def _target_computed(self, event: Event) -> None:
        current = self._current()
        if current is not None and current.kind == "consumer":
            current.joined_ms = event.timestamp_ms
            current.protocol = event.detail
            if current.is_logged:
                current.members = event.count

    def _revocation_awaited(self, event: Event) -> None:
        current = self._current()
        if current is not None and event.member is not None:
            current.revoking[event.member.member_id] = event
            current.ended_ms = None

    def _member_reconciled(self, event: Event) -> None:
        current = self._current()
        if current is None or event.member is None:
            return
        if waited := current.revoking.pop(event.member.member_id, None):
            self._revoked(current, waited, event)
        for name, value in (event.figures or {}).items():
            known = current.figures.get(name, 0)
            current.figures[name] = max(known, value) if name == "longest_ms" else known + value
        if not current.revoking:
            current.ended_ms = event.timestamp_ms

    def _revoked(self, current: Rebalance, waited: Event, event: Event) -> None:
        assert event.member is not None
        took = event.timestamp_ms - waited.timestamp_ms
        current.revoked.append((event.member, waited.count or 0, took))

    def _commits_resumed(self, event: Event) -> None:
        if self.done and self.done[-1].is_logged:
            self.done[-1].commit_gap_ms = event.silent_ms

    def _request_refused(self, event: Event) -> None:
        current = self._current()
        if current is not None:
            current.refused.append(event)

    def _group_deleted(self, event: Event) -> None:
        self._open = None
        self._has_members = False

    def _group_migrated(self, event: Event) -> None:
        self._open = None

    def _trigger(self, event: Event) -> Trigger:
        trigger = Trigger(event.cause or "", event.member, detail=event.detail)
        now_ms = event.timestamp_ms
        before = event.generation_id - (event.kind == "group_epoch_bumped")
        trigger.is_first = not before if self._has_members is None else not self._has_members
        gone = self._gone.get(event.member.member_id) if event.member is not None else None
        if gone is not None and event.cause in ("member_left", "session_expired", "sync_expired"):
            trigger.silent_ms = gone.silent_ms
            if event.cause == "member_left":
                trigger.cause = gone.cause or "left"
        if event.cause == "member_joined" and event.member is not None:
            left_ms = self._left.get(who(event.member))
            if left_ms is not None and now_ms - left_ms <= _RETURN_MS:
                trigger.returned_after_ms = now_ms - left_ms
        if event.cause == "metadata_changed" and event.detail == "owned partitions":
            trigger.cause = "cooperative_step"
        if event.cause in ("leader_rejoined", "topics_changed", "metadata_changed"):
            recent = [one for one in self._topics if now_ms - one.timestamp_ms <= _TOPICS_MS]
            if event.cause == "leader_rejoined" and trigger.detail is not None:
                reads = trigger.detail.removeprefix("reads: ").split(" ")
                recent = [one for one in recent if one.detail in reads]
                trigger.detail = None
            trigger.topics = recent if event.cause != "metadata_changed" else []
            if event.cause == "leader_rejoined" and recent:
                trigger.cause = "topics_changed"
            self._topics = [] if trigger.topics else self._topics
        if self._loaded_ms is not None and 0 <= now_ms - self._loaded_ms <= _FAILOVER_MS:
            trigger.after_failover_ms = now_ms - self._loaded_ms
        return trigger


def rebalances_of(events: Iterable[Event]) -> list[Rebalance]:
    """The rebalances of one group, from its events and those of the coordinator, in the order of
    time."""
    assembly = _Assembly()
    for event in events:
        assembly.take(event)
    return assembly.done
