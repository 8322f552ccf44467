"""What repeats: patterns over time, each with one suggestion and the evidence for it.

A pattern is claimed only where the events show it; a group that is left alone has none.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from pykcoord.events import Event
from pykcoord.explain.evidence import Past, Pattern, burst_of, grouped, pattern_of, totals
from pykcoord.explain.rebalances import Rebalance
from pykcoord.explain.story import is_poll_timeout
from pykcoord.explain.text import client_text, counted, duration, listed, member_text, safe, who
from pykcoord.explain.waits import always_waited

__all__ = ["PATTERNS", "Pattern", "patterns_of"]

_FLAPS = 3
_FLAP_MS = 900_000
_DEPLOY_MS = 900_000
_BACK_MS = 120_000
_REPLACED = 3
_SLOW_LEADER_MS = 5_000
_ASKED = 5
# By whether the protocol is the consumer protocol: Kafka's bound, and its default.
_MOST_SESSION_MS = {
    False: ("group.max.session.timeout.ms", 1_800_000),
    True: ("group.consumer.max.session.timeout.ms", 60_000),
}
# As a coordinator knows it, and as a log tells it.
_RESTARTED = ("restarted", "went and came back")
_ASSIGN_ELSEWHERE = (
    "Let the coordinator assign this group: group.assignment=coordinator.",
    "Move the group to group.protocol=consumer, where the coordinator assigns.",
)


def _named(events: Sequence[Event]) -> tuple[str, bool]:
    """Their members in words, and whether they are several."""
    names = sorted({member_text(one.member) for one in events})
    return listed(names), len(names) > 1


def _slow_poll(past: Past) -> Iterator[Pattern]:
    gone = past.of("member_gone")
    said = [one for one in gone if one.member and is_poll_timeout(one.member.reason)]
    late = [one for one in gone if one.cause == "rebalance_timeout"]
    if not (events := sorted(said + late, key=lambda one: one.timestamp_ms)):
        return
    names, are_several = _named(events)
    evidence = []
    if said:
        evidence.append(f"{counted(len(said), 'time')} a client left saying that poll() was late")
    if late:
        evidence.append(
            f"{counted(len(late), 'time')} a member did not answer a rebalance in its time"
        )
    yield pattern_of(
        "slow_poll_loop",
        events,
        f"The application{'s of' if are_several else ' of'} {names} "
        f"call{'' if are_several else 's'} poll() more rarely than max.poll.interval.ms allows.",
        "Lower max.poll.records, so that less is processed between two calls of poll().",
        "; ".join(evidence),
    )


def _short_session(past: Past) -> Iterator[Pattern]:
    """Members that were removed, and then were heard of again under the same id."""
    gone = {
        event.member.member_id: event
        for event in past.of("member_gone")
        if event.member is not None and event.cause == "session_expired"
    }
    returned: list[tuple[Event, int]] = []
    seen: set[str] = set()
    for event in past.of("request_refused", "member_fenced"):
        if event.member is None or event.member.member_id in seen:
            continue
        expired = gone.get(event.member.member_id)
        if expired is not None and event.timestamp_ms >= expired.timestamp_ms:
            seen.add(event.member.member_id)
            pause = event.timestamp_ms - expired.timestamp_ms + (expired.silent_ms or 0)
            returned.append((expired, pause))
    if not returned:
        return
    events = [expired for expired, _ in returned]
    longest = max(pause for _, pause in returned)
    timeout = max(event.silent_ms or 0 for event in events)
    wanted = math.ceil(longest * 1.5 / 1000) * 1000
    names, are_several = _named(events)
    yield pattern_of(
        "session_timeout_too_short",
        events,
        f"{names} paused for longer than the session timeout, and went on afterwards: "
        f"{'they were' if are_several else 'it was'} alive.",
        _longer_session(wanted, past.is_consumer),
        f"removed after {duration(timeout)} of silence, and heard of again "
        f"{duration(longest)} after its last sign of life",
    )


def _longer_session(wanted_ms: int, is_consumer: bool) -> str:
    """Where the default bounds of a coordinator allow it no more, it says so."""
    bound, most_ms = _MOST_SESSION_MS[is_consumer]
    name = "group.consumer.session.timeout.ms" if is_consumer else "session.timeout.ms"
    allowed = f" ({bound} has to allow it)" if wanted_ms > most_ms else ""
    return f"Set {name} to {wanted_ms} or more{allowed}."


def _fighting_protocols(past: Past) -> Iterator[Pattern]:
    refused = [
        event
        for event in past.of("request_refused")
        if event.detail == "JoinGroup" and event.cause == "INCONSISTENT_GROUP_PROTOCOL"
    ]
    if not refused:
        return
    names, are_several = _named(refused)
    total = sum(totals(refused).values())
    yield pattern_of(
        "protocols_differ",
        refused,
        f"{names} {'have' if are_several else 'has'} no assignor in common with the members of the "
        "group, and cannot join.",
        "Give all members one common entry in partition.assignment.strategy.",
        f"{counted(total, 'JoinGroup')} refused with INCONSISTENT_GROUP_PROTOCOL",
    )


def _instance_twice(past: Past) -> Iterator[Pattern]:
    fenced = [
        event
        for event in past.of("request_refused")
        if event.cause in ("FENCED_INSTANCE_ID", "UNRELEASED_INSTANCE_ID")
        and event.member is not None
        and event.member.group_instance_id
    ]
    replaced = [
        event for event in past.of("member_gone") if event.cause == "static_member_replaced"
    ]
    by_instance = grouped(sorted(fenced + replaced, key=lambda one: one.timestamp_ms))
    for events in by_instance.values():
        member = events[0].member
        assert member is not None
        refused = [event for event in events if event.kind == "request_refused"]
        if not refused and len(burst_of(events, _FLAP_MS, _REPLACED)) < _REPLACED:
            continue
        taken = len(events) - len(refused)
        evidence = []
        if taken:
            evidence.append(f"taken over {counted(taken, 'time')}")
        if refused:
            codes = listed(sorted({event.cause or "" for event in refused}))
            evidence.append(f"{counted(sum(totals(refused).values()), 'request')} with {codes}")
        yield pattern_of(
            "instance_id_used_twice",
            events,
            f"Two processes use the group.instance.id {safe(member.group_instance_id or '')}, and "
            "put each other out.",
            "Give each process a group.instance.id of its own.",
            "; ".join(evidence),
        )


def _lives(past: Past) -> dict[str, list[Event]]:
    """Who left or was removed, and joined again later: the joins, by who it is."""
    went: dict[str, int] = {}
    back: dict[str, list[Event]] = defaultdict(list)
    for event in past.of("member_gone", "member_joined"):
        if event.member is None or event.cause in ("static_member_replaced", "never_joined"):
            continue
        name = who(event.member)
        if event.kind == "member_gone":
            went[name] = event.timestamp_ms
        elif event.timestamp_ms - went.pop(name, -(10**15)) <= _FLAP_MS:
            back[name].append(event)
    return back


def _comings(past: Past) -> Iterator[Pattern]:
    """Clients that come and go: one again and again, or all once after another."""
    back = _lives(past)
    poll = {
        who(one.member)
        for one in past.of("member_gone")
        if one.member and (one.cause == "rebalance_timeout" or is_poll_timeout(one.member.reason))
    }
    flapping = {}
    for name, events in back.items():
        if burst := burst_of(events, _FLAP_MS, _FLAPS):
            flapping[name] = burst
    for name, events in flapping.items():
        if name in poll:
            continue  # its poll loop is the cause, and has its own pattern
        took = duration(events[-1].timestamp_ms - events[0].timestamp_ms)
        yield pattern_of(
            "flapping_member",
            events,
            f"{member_text(events[-1].member)} comes and goes: each time the whole group "
            "rebalances.",
            f"Find out in the log of {client_text(events[-1].member)} why it ends.",
            f"came back {counted(len(events), 'time')} in {took}",
        )
    once = [
        events[0]
        for name, events in back.items()
        if name not in flapping and name not in poll
        and events[0].member is not None and not events[0].member.group_instance_id
    ]  # fmt: skip
    once.sort(key=lambda one: one.timestamp_ms)
    burst = burst_of(once, _DEPLOY_MS, _FLAPS)
    if burst and len(burst) > len(flapping):
        start, end = burst[0].timestamp_ms, burst[-1].timestamp_ms
        count = sum(
            1 for of in past.rebalances if start - _BACK_MS <= of.started_ms <= end + _BACK_MS
        )
        yield pattern_of(
            "rolling_deploy",
            burst,
            f"{counted(len(burst), 'member')} {_RESTARTED[past.is_logged]} one after another, and "
            "the group rebalanced for each of them.",
            "Give each process a fixed group.instance.id: one that is back within "
            "session.timeout.ms keeps its partitions, and nobody rebalances.",
            f"{counted(len(burst), 'client')} came back within {duration(end - start)}; "
            f"{counted(count, 'rebalance')} in that time; none has an instance id",
        )


def _restless_leader(past: Past) -> Iterator[Pattern]:
    """A leader that asks for another assignment though no topic changed. A log tells of members
    that stay the same and are given partitions anew."""
    causes = ("leader_rejoined", "logged_nothing")
    asked = {of.started_ms: of for of in past.rebalances if of.trigger.cause in causes}
    starts = [one for one in past.of("rebalance_started") if one.timestamp_ms in asked]
    for events in [starts] if past.is_logged else grouped(starts).values():
        if not (burst := burst_of(events, _FLAP_MS, _ASKED)):
            continue
        leader = burst[-1].member or asked[burst[-1].timestamp_ms].leader
        had_to = sum(1 for one in burst if asked[one.timestamp_ms].figures.get("least"))
        took = duration(burst[-1].timestamp_ms - burst[0].timestamp_ms)
        yield pattern_of(
            "leader_asks_again",
            burst,
            "The group rebalances again and again, though its members and what they subscribe to "
            f"stay the same; {member_text(leader)} leads it."
            if past.is_logged
            else f"The leader, {member_text(leader)}, asks for another assignment again and again, "
            "though no topic changed.",
            f"Find out in the log of {client_text(leader)} why it joins again, and restart it.",
            f"{counted(len(burst), 'time')} in {took}; {had_to} of these times a partition had to "
            "move",
        )


def _idle_members(past: Past) -> Iterator[Pattern]:
    last = next((one for one in reversed(past.events) if one.kind == "group_stable"), None)
    newer = past.of("member_joined", "group_epoch_bumped", "group_deleted")
    if last is not None and not (newer and newer[-1].kind == "group_epoch_bumped"):
        partitions = (last.figures or {}).get("partitions")
        members = last.count or 0
        if partitions is not None and members > partitions:
            yield _idle(last, members - partitions, members, partitions)
        return
    has: dict[str, Event] = {}
    for event in past.of("member_reconciled", "member_gone"):
        assert event.member is not None
        if event.kind == "member_gone":
            has.pop(event.member.member_id, None)
        else:
            has[event.member.member_id] = event
    idle = [event for event in has.values() if event.count == 0]
    if idle and len(has) > 1:
        partitions = sum(event.count or 0 for event in has.values())
        if partitions < len(has):
            yield _idle(idle[-1], len(idle), len(has), partitions)


def _idle(event: Event, idle: int, members: int, partitions: int) -> Pattern:
    return pattern_of(
        "more_members_than_partitions",
        [event],
        f"The group has more members than partitions: {counted(idle, 'member')} can have none.",
        f"Stop {counted(idle, 'member')}.",
        f"{counted(members, 'member')}, {counted(partitions, 'partition')}",
    )


def _zombies(past: Past) -> Iterator[Pattern]:
    refused = [
        event
        for event in past.of("request_refused")
        if event.detail == "OffsetCommit"
        and event.cause in ("UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "STALE_MEMBER_EPOCH")
    ]
    total = sum(totals(refused).values())
    if total < 4:
        return
    names, are_several = _named(refused)
    commits, has = ("commit", "they have") if are_several else ("commits", "it has")
    yield pattern_of(
        "commits_refused",
        refused,
        f"{names} {commits} offsets of a generation that is over: what {has} processed since is "
        "processed again by others.",
        "Commit in the listener of revoked partitions, before the rebalance ends.",
        f"{counted(total, 'commit')} refused",
    )


def _full(past: Past) -> Iterator[Pattern]:
    refused = [one for one in past.of("request_refused") if one.cause == "GROUP_MAX_SIZE_REACHED"]
    if refused:
        total = counted(sum(totals(refused).values()), "request")
        yield pattern_of(
            "group_full",
            refused,
            "Members cannot join: the group has as many as group.max.size allows.",
            "Raise group.max.size.",
            f"{total} refused with GROUP_MAX_SIZE_REACHED",
        )


def _bad_timeout(past: Past) -> Iterator[Pattern]:
    refused = [one for one in past.of("request_refused") if one.cause == "INVALID_SESSION_TIMEOUT"]
    if refused:
        names, are_several = _named(refused)
        yield pattern_of(
            "session_timeout_out_of_bounds",
            refused,
            f"{names} {'ask' if are_several else 'asks'} for a session timeout that the "
            "coordinator does not allow.",
            f"Set {'their' if are_several else 'its'} session.timeout.ms between "
            "group.min.session.timeout.ms and group.max.session.timeout.ms.",
            f"{counted(sum(totals(refused).values()), 'JoinGroup')} refused with "
            "INVALID_SESSION_TIMEOUT",
        )


def _slow_leader(past: Past) -> Iterator[Pattern]:
    slow = [
        of
        for of in past.rebalances
        if of.kind == "classic" and of.ended_ms and of.joined_ms and of.leader
        and of.ended_ms - of.joined_ms >= _SLOW_LEADER_MS
    ]  # fmt: skip
    if slow:
        longest = max((of.ended_ms or 0) - (of.joined_ms or 0) for of in slow)
        yield Pattern(
            "slow_leader",
            f"The leader, {member_text(slow[-1].leader)}, takes long to assign, and all wait.",
            _ASSIGN_ELSEWHERE[past.is_logged],
            f"{counted(len(slow), 'rebalance')}, up to {duration(longest)}",
            slow[0].started_ms,
            slow[-1].started_ms,
            len(slow),
        )


def _unsynced(past: Past) -> Iterator[Pattern]:
    gone = [one for one in past.of("member_gone") if one.cause == "sync_expired"]
    if gone:
        names, are_several = _named(gone)
        yield pattern_of(
            "never_synced",
            gone,
            f"{names} joined, and never asked for the assignment: "
            f"{'they hang' if are_several else 'it hangs'} between the two.",
            "Look at what it does in its assignor and in its rebalance listener, and restart it.",
            f"removed {counted(len(gone), 'time')} for want of a SyncGroup",
        )


def _lag(past: Past) -> Iterator[Pattern]:
    by_partition: dict[str, list[Event]] = defaultdict(list)
    for event in past.of("lag_grows"):
        by_partition[event.detail or ""].append(event)
    for partition, events in by_partition.items():
        last = events[-1]
        yield pattern_of(
            "lag_without_commits",
            events,
            f"Partition {safe(partition)} falls behind, and its owner, "
            f"{member_text(last.member)}, commits nothing.",
            f"Find in the log of {member_text(last.member)} the record at which it stays.",
            f"{counted(last.count or 0, 'record')} behind, no commit for "
            f"{duration(last.silent_ms or 0)}",
        )


def _dead(past: Past) -> Iterator[Pattern]:
    """Members that died, and did not come back under their id: once is an accident."""
    returned = {
        one.member.member_id for one in past.of("request_refused", "member_fenced") if one.member
    }
    gone = [
        one
        for one in past.of("member_gone")
        if one.cause == "session_expired" and one.member and one.member.member_id not in returned
    ]
    if len(burst := burst_of(gone, _DEPLOY_MS, _FLAPS)) >= _FLAPS:
        names, _ = _named(burst)
        yield pattern_of(
            "members_die",
            burst,
            f"Members end without leaving the group ({names}): their partitions wait for the "
            "session timeout each time.",
            "Find out from their logs what ends them without close().",
            f"{counted(len(burst), 'member')} silent for good in "
            f"{duration(burst[-1].timestamp_ms - burst[0].timestamp_ms)}",
        )


_FINDERS: dict[str, Callable[[Past], Iterator[Pattern]]] = {
    "slow_poll_loop": _slow_poll,
    "session_timeout_too_short": _short_session,
    "protocols_differ": _fighting_protocols,
    "instance_id_used_twice": _instance_twice,
    "lag_without_commits": _lag,
    "always_waited_for": always_waited,
    "flapping_member": _comings,
    "leader_asks_again": _restless_leader,
    "more_members_than_partitions": _idle_members,
    "group_full": _full,
    "session_timeout_out_of_bounds": _bad_timeout,
    "slow_leader": _slow_leader,
    "never_synced": _unsynced,
    "members_die": _dead,
    "commits_refused": _zombies,
}
PATTERNS = (*_FINDERS, "rolling_deploy")
"""The names of all patterns."""


def patterns_of(events: Sequence[Event], rebalances: Sequence[Rebalance]) -> list[Pattern]:
    """What repeats in the events of one group, the most telling first."""
    past = Past(events, rebalances)
    found = [pattern for find in _FINDERS.values() for pattern in find(past)]
    names = {pattern.name for pattern in found}
    if names & {"session_timeout_too_short", "slow_poll_loop", "instance_id_used_twice"}:
        # Commits of a member that was put out are what comes of it.
        found = [pattern for pattern in found if pattern.name != "commits_refused"]
    return found
