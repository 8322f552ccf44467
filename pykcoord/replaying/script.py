"""What the clients of a group did, as its record tells: when they came, were silent, and went."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pykcoord.errors import KcoordError
from pykcoord.events import Event, EventMember
from pykcoord.explain.text import who
from pykcoord.record_fields import subscription_of

__all__ = ["Act", "Process", "Script", "Traits", "script_of"]


@dataclass(frozen=True, slots=True)
class Traits:
    """Of a member in a record of the log: timeouts in ms, topics, and the assignor in use (of a
    consumer group: that the member prefers, if any). `later`: other topics that it subscribed to,
    and when; of members of consumer groups."""

    session_ms: int = 45_000
    rebalance_ms: int = 300_000
    topics: tuple[str, ...] = ()
    protocol: str = "range"
    later: tuple[tuple[int, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Act:
    """Something that a process does at `at_ms` (ms since the epoch): `start`, `leave`, `die`,
    `pause` (says nothing until `until_ms`), `busy` (heartbeats, but does not join again until
    then), `rejoin`, or `subscribe` (to `topics`)."""

    at_ms: int
    kind: str
    until_ms: int | None = None
    reason: str | None = None
    topics: tuple[str, ...] = ()


@dataclass(slots=True)
class Process:
    """A client beyond one life of its member. `rejoin_ms`: from the start of a rebalance to its
    JoinGroup, as a rule; `assign_ms`: how long it takes as the leader; `revoke_ms`: how long it
    takes to give up partitions, in a consumer group."""

    client_id: str
    host: str
    instance: str | None
    traits: Traits
    acts: list[Act] = field(default_factory=list)
    rejoin_ms: int = 1_500
    assign_ms: int = 20
    revoke_ms: int = 20


@dataclass(slots=True)
class Script:
    """A group's clients, and what happened around them. `is_consumer`: of the consumer protocol
    (KIP-848). `topics`: partitions at the start; `grows`:
    (time, topic, partitions); `failovers`: when the coordinator loaded the group; `left_out`: kinds
    of events that could not be taken over, counted."""

    group_id: str
    start_ms: int
    end_ms: int
    processes: dict[str, Process]
    topics: dict[str, int]
    grows: list[tuple[int, str, int]] = field(default_factory=list)
    failovers: list[int] = field(default_factory=list)
    left_out: dict[str, int] = field(default_factory=dict)
    is_consumer: bool = False


def script_of(
    events: Iterable[Event], group_id: str, traits: Mapping[str, Traits], topics: Mapping[str, int]
) -> Script:
    """The script of a group. `events`: of it and of the whole coordinator; `traits`: by
    member id; `topics`: partitions as they are now. Raises KcoordError for a group of which the
    record does not say enough."""
    own = sorted(
        (one for one in events if one.group_id in (group_id, "")), key=lambda one: one.timestamp_ms
    )
    of_group = [one for one in own if one.group_id]
    if not of_group:
        raise KcoordError(f"{group_id!r}: nothing is recorded of this group")
    if any(one.kind == "group_migrated" for one in of_group):
        raise KcoordError(
            f"{group_id!r} changed its protocol (KIP-848): name a time of one protocol by --since"
        )
    is_consumer = any(one.kind == "group_epoch_bumped" for one in of_group)
    if is_consumer and any(one.kind == "member_rejoined" for one in of_group):
        raise KcoordError(
            f"{group_id!r} has members of the classic protocol in a consumer group: these are not "
            "run again"
        )
    start_ms, end_ms = of_group[0].timestamp_ms, own[-1].timestamp_ms
    script = Script(group_id, start_ms, end_ms, {}, dict(topics), is_consumer=is_consumer)
    _surroundings(script, [one for one in own if not one.group_id])
    _Reading(script, of_group, traits).read()
    return script


def _surroundings(script: Script, notes: Iterable[Event]) -> None:
    for note in notes:
        if note.timestamp_ms < script.start_ms:
            continue
        figures = note.figures or {}
        if note.kind == "topics_changed" and note.detail is not None:
            grown = (note.timestamp_ms, note.detail, int(figures.get("partitions", 0)))
            script.grows.append(grown)
        elif note.kind == "shard_loaded":
            script.failovers.append(note.timestamp_ms)
        elif note.kind == "events_dropped":
            _leave_out(script, note.kind)
    for _, topic, _ in reversed(script.grows):
        script.topics.pop(topic, None)
    for note in notes:
        if note.kind == "topics_changed" and note.detail is not None:
            before = int((note.figures or {}).get("partitions_before", 0))
            if before:
                script.topics.setdefault(note.detail, before)


def _leave_out(script: Script, kind: str) -> None:
    script.left_out[kind] = script.left_out.get(kind, 0) + 1


class _Reading:
    """One pass over the events of a group."""

    def __init__(self, script: Script, events: list[Event], traits: Mapping[str, Traits]) -> None:
        self.script, self.events, self.traits = script, events, traits
        self._members: dict[str, str] = {}
        """The process of each member that is there."""
        self._rejoins: dict[str, list[int]] = defaultdict(list)
        self._assigns: dict[str, list[int]] = defaultdict(list)
        self._revokes: dict[str, list[int]] = defaultdict(list)
        self._asked_ms: dict[str, int] = {}
        """When those that have partitions to give up were told so."""

    def read(self) -> None:
        started_ms = joined_ms = None
        for at, event in enumerate(self.events):
            if event.kind == "rebalance_started":
                started_ms = event.timestamp_ms
                self._asked(event)
            elif event.kind == "join_phase_completed":
                joined_ms = event.timestamp_ms
            elif (
                event.kind == "group_stable" and event.member is not None and joined_ms is not None
            ):
                name = self._process(event.member)
                self._assigns[name].append(event.timestamp_ms - joined_ms)
            elif event.kind == "member_joined" and event.member is not None:
                self._came(event)
            elif event.kind == "member_rejoined" and event.member is not None:
                name = self._process(event.member)
                if started_ms is not None and event.timestamp_ms > started_ms:
                    self._rejoins[name].append(event.timestamp_ms - started_ms)
            elif event.kind == "member_gone" and event.member is not None:
                self._went(at, event, started_ms)
            elif event.kind == "group_epoch_bumped":
                self._bumped(event)
            elif event.kind == "revocation_awaited" and event.member is not None:
                self._asked_ms[self._process(event.member)] = event.timestamp_ms
            elif event.kind == "member_reconciled" and event.member is not None:
                name = self._process(event.member)
                if (asked_ms := self._asked_ms.pop(name, None)) is not None:
                    self._revokes[name].append(event.timestamp_ms - asked_ms)
            elif event.kind == "heartbeat_late" and event.member is not None:
                silent_ms = event.silent_ms or 0
                pause = Act(event.timestamp_ms - silent_ms, "pause", event.timestamp_ms)
                self._add(event.member, pause)
        for name, process in self.script.processes.items():
            if self._rejoins[name]:
                process.rejoin_ms = int(statistics.median(self._rejoins[name]))
            if self._assigns[name]:
                process.assign_ms = int(statistics.median(self._assigns[name]))
            if self._revokes[name]:
                process.revoke_ms = int(statistics.median(self._revokes[name]))
            process.acts.sort(key=lambda act: act.at_ms)

    def _process(self, member: EventMember) -> str:
        """The name of the member's process, which is made where it is not known yet: it was there
        before the record begins."""
        if member.member_id in self._members:
            return self._members[member.member_id]
        name = self._free_name(member)
        if name not in self.script.processes:
            known = self.traits.get(member.member_id, Traits())
            host = member.client_host.removeprefix("/")
            of = (member.client_id, host, member.group_instance_id, known)
            self.script.processes[name] = Process(*of)
            self.script.processes[name].acts.append(Act(self.script.start_ms, "start"))
        self._members[member.member_id] = name
        return name

    def _free_name(self, member: EventMember) -> str:
        """Of several processes that call themselves the same, one that has no member now."""
        taken = set(self._members.values())
        name = who(member)
        for number in range(len(taken) + 1):
            found = name if number == 0 else f"{name} #{number + 1}"
            if found not in taken:
                return found
        raise AssertionError("one is free")

    def _add(self, member: EventMember, act: Act) -> None:
        self.script.processes[self._process(member)].acts.append(act)

    def _came(self, event: Event) -> None:
        member = event.member
        assert member is not None
        is_new = self._free_name(member) not in self.script.processes
        process = self.script.processes[self._process(member)]
        if is_new:
            process.acts.clear()
        elif _is_up(process.acts):
            return  # It was put out, and has come again by itself.
        process.traits = self.traits.get(member.member_id, process.traits)
        process.acts.append(Act(event.timestamp_ms, "start", reason=member.reason))

    def _went(self, at: int, event: Event, started_ms: int | None) -> None:
        member = event.member
        assert member is not None
        name = self._process(member)
        del self._members[member.member_id]
        acts, now_ms = self.script.processes[name].acts, event.timestamp_ms
        if event.cause == "left":
            acts.append(Act(now_ms, "leave", reason=member.reason))
        elif event.cause == "session_expired":
            since_ms = now_ms - (event.silent_ms or 0)
            heard_ms = self._heard_again(at, member)
            if heard_ms is not None:
                acts.append(Act(since_ms, "pause", heard_ms))
            else:
                acts.append(Act(since_ms, "die"))
        elif event.cause == "rebalance_timeout" and self.script.is_consumer:
            asked_ms = self._asked_ms.pop(name, now_ms)
            acts.append(Act(asked_ms, "busy", self._back(at, name, member)))
        elif event.cause == "rebalance_timeout" and started_ms is not None:
            back_ms = self._back(at, name, member)
            acts.append(Act(started_ms, "busy", back_ms))
        elif event.cause == "static_member_replaced":
            acts.append(Act(now_ms, "die"))
        else:
            _leave_out(self.script, f"member_gone, {event.cause}")

    def _heard_again(self, at: int, member: EventMember) -> int | None:
        """When a request of a member that was removed was refused: it was alive."""
        for event in self.events[at + 1 :]:
            said = event.member
            if event.kind != "request_refused" or said is None:
                continue
            if said.member_id == member.member_id:
                return event.timestamp_ms
        return None

    def _back(self, at: int, name: str, member: EventMember) -> int | None:
        """When a client that did not join again in time joined anew."""
        for event in self.events[at + 1 :]:
            came = event.member if event.kind == "member_joined" else None
            if came is not None and who(came) == who(member):
                return event.timestamp_ms
        return None

    def _asked(self, event: Event) -> None:
        """A member that joined again by itself, and what it changed."""
        if event.member is None:
            return
        if event.cause == "leader_rejoined":
            self._add(event.member, Act(event.timestamp_ms, "rejoin", reason=event.member.reason))
        elif event.cause == "metadata_changed" and event.detail == _OWNED:
            return  # A cooperative member that has given up partitions joins once more.
        elif event.cause == "metadata_changed":
            topics = self._subscribed(event)
            if topics is None:
                _leave_out(self.script, "rebalance_started, metadata_changed")
                return
            act = Act(event.timestamp_ms, "subscribe", reason=event.member.reason, topics=topics)
            self._add(event.member, act)
        elif event.cause not in _FOLLOWS:
            _leave_out(self.script, f"rebalance_started, {event.cause}")

    def _bumped(self, event: Event) -> None:
        """What a member of a consumer group changed."""
        if event.cause == "subscription_changed" and event.member is not None:
            known = self.traits.get(event.member.member_id, Traits()).later
            topics = [of for at_ms, of in known if at_ms <= event.timestamp_ms]
            if topics:
                act = Act(event.timestamp_ms, "subscribe", topics=topics[-1])
                return self._add(event.member, act)
        if event.cause not in (*_FOLLOWS, "topics_changed", "rebalance_timeout"):
            _leave_out(self.script, f"group_epoch_bumped, {event.cause}")
        return None

    def _subscribed(self, event: Event) -> tuple[str, ...] | None:
        detail = event.detail or ""
        if not detail.startswith("topics: ") or event.member is None:
            return None
        process = self.script.processes[self._process(event.member)]
        before = next(
            (act.topics for act in reversed(process.acts) if act.kind == "subscribe"),
            process.traits.topics,
        )
        changes = detail.removeprefix("topics: ").split(" ")
        return tuple(sorted(_changed(before, changes)))


_OWNED = "owned partitions"
# Causes of rebalances that follow of what members did.
_FOLLOWS = ("member_joined", "member_left", "session_expired", "static_member_replaced")


def _changed(before: Iterable[str], changes: Iterable[str]) -> Iterator[str]:
    gone = {word[1:] for word in changes if word.startswith("-")}
    come = {word[1:] for word in changes if word.startswith("+")}
    yield from (set(before) - gone) | come


def _is_up(acts: list[Act]) -> bool:
    lives = [act.kind for act in acts if act.kind in ("start", "leave", "die")]
    return bool(lives) and lives[-1] == "start"


def traits_of(
    records: Iterable[tuple[int, str, Mapping[str, Any], Mapping[str, Any]]],
) -> dict[str, Traits]:
    """Of the members in records of a group, as `pykcoord log dump` shows them (time in ms, kind,
    key, value): what the last record with a member says of it. Of members of consumer groups, the
    topics are those of their first one. Raises KcoordError for a member whose topics are not
    known: those of a regular expression."""
    found: dict[str, Traits] = {}
    for at_ms, kind, key, value in records:
        if kind == "GroupMetadata":
            for member in value["members"]:
                subscription = subscription_of(member["subscription"]) or {}
                found[str(member["memberId"])] = Traits(
                    int(member["sessionTimeout"]),
                    int(member["rebalanceTimeout"]),
                    tuple(subscription.get("topics", ())),
                    str(value["protocol"] or "range"),
                )
        elif kind == "ConsumerGroupMemberMetadata":
            if value["subscribedTopicRegex"]:
                raise KcoordError(
                    f"{key['groupId']!r} subscribes by regular expressions: these are not run again"
                )
            topics = tuple(value["subscribedTopicNames"])
            before = found.get(str(key["memberId"]))
            found[str(key["memberId"])] = Traits(
                rebalance_ms=int(value["rebalanceTimeoutMs"]),
                topics=before.topics if before else topics,
                protocol=str(value["serverAssignor"] or ""),
                later=(*(before.later if before else ()), (at_ms, topics)),
            )
    return found
