"""What happened, in plain sentences: one for each cause, and one for what came of it.

The sentences of causes stand in docs/explain.md as they are printed here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pykcoord.events import Event
from pykcoord.explain.logged_story import (
    LOGGED_LINES,
    logged_cause,
    logged_partitions,
    logged_phases,
    subscribed,
)
from pykcoord.explain.parts import WAIT_MS, moved_partitions, numbers, waited_for
from pykcoord.explain.rebalances import Rebalance, Trigger
from pykcoord.explain.text import counted, duration, listed, member_text, safe

__all__ = ["COORDINATOR_LINES", "Line", "cause_sentence", "course_sentence", "single_lines"]

# What clients say when the application did not call poll() in time: Java's and kafka-python's.
POLL_REASONS = ("consumer poll timeout has expired", "max.poll.interval", "poll timeout")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a story: when, what, and the event or rebalance it tells of."""

    at_ms: int
    text: str
    fields: dict[str, Any]


def is_poll_timeout(reason: str | None) -> bool:
    """Whether a client says that its application did not call poll() in time."""
    return reason is not None and any(known in reason.lower() for known in POLL_REASONS)


def cause_sentence(rebalance: Rebalance) -> str:
    """Why it began."""
    if rebalance.is_logged:
        return logged_cause(rebalance)
    trigger = rebalance.trigger
    tell = _CAUSES.get(trigger.cause)
    text = tell(trigger) if tell is not None else f"Cause: {safe(trigger.cause)}."
    ago_ms = trigger.after_failover_ms
    if ago_ms is not None and trigger.cause in _FAILOVER and not trigger.is_first:
        text += (
            f" The coordinator had loaded the group {duration(ago_ms)} before,"
            " when the sessions of its members began anew."
        )
    return text


def _joined(trigger: Trigger) -> str:
    name = member_text(trigger.member)
    came = f"The group had no members, and {name}" if trigger.is_first else f"Member {name}"
    if trigger.returned_after_ms is not None and trigger.member is not None:
        came += f" joined: {_client(trigger)} is back, {_ago(trigger)} after it went."
    else:
        came += " joined."
    return came + _says(trigger)


def _client(trigger: Trigger) -> str:
    assert trigger.member is not None
    return safe(trigger.member.group_instance_id or trigger.member.client_id or "its client")


def _ago(trigger: Trigger) -> str:
    return duration(trigger.returned_after_ms or 0)


def _says(trigger: Trigger) -> str:
    reason = trigger.member.reason if trigger.member is not None else None
    return f' It says: "{_words(reason)}".' if reason else ""


def _words(reason: str) -> str:
    return safe(reason.removesuffix("."))


def _left(trigger: Trigger) -> str:
    name = member_text(trigger.member)
    reason = trigger.member.reason if trigger.member is not None else None
    if is_poll_timeout(reason):
        return (
            f"Member {name} left because its application did not call poll() within "
            f'max.poll.interval.ms. It says: "{_words(reason or "")}".'
        )
    if reason:
        return f'Member {name} left. It says: "{_words(reason)}".'
    return f"Member {name} left and gave no reason."


def _expired(trigger: Trigger) -> str:
    name = member_text(trigger.member)
    if trigger.silent_ms is None:
        return f"Member {name} was removed: its session timed out."
    silent = duration(trigger.silent_ms)
    return f"Member {name} was removed: nothing was heard of it for {silent}, its session timeout."


def _topics(trigger: Trigger) -> str:
    changes = listed([_topic_change(one) for one in trigger.topics])
    if trigger.member is not None:
        name = member_text(trigger.member)
        return f"The leader, {name}, asked for another assignment after {changes}." + _says(trigger)
    if trigger.topics:
        return f"Topics changed: {changes}."
    return "Topics that the group reads came, went or grew."


def _topic_change(event: Event) -> str:
    figures = event.figures or {}
    before, after = figures.get("partitions_before", 0), figures.get("partitions", 0)
    name = safe(event.detail or "")
    if not before:
        return f"topic {name} was created with {counted(after, 'partition')}"
    if not after:
        return f"topic {name} was deleted"
    return f"topic {name} grew from {before} to {counted(after, 'partition')}"


def _metadata(trigger: Trigger) -> str:
    name, detail = member_text(trigger.member), trigger.detail or ""
    if detail.startswith("topics: "):
        changes = [subscribed(word) for word in detail.removeprefix("topics: ").split(" ")]
        return f"Member {name} changed its subscription: {listed(changes)}." + _says(trigger)
    if detail.startswith("protocols: "):
        return (
            f"Member {name} came with other assignors: "
            f"{safe(detail.removeprefix('protocols: '))}." + _says(trigger)
        )
    what = safe(detail) or "metadata"
    return f"Member {name} joined again with another {what}." + _says(trigger)


_CAUSES: dict[str, Callable[[Trigger], str]] = {
    "member_joined": _joined,
    "left": _left,
    "member_left": _left,
    "removed_by_admin": lambda of: (
        f"An administrator removed {member_text(of.member)}." + _says(of)
    ),
    "session_expired": _expired,
    "sync_expired": lambda of: (
        f"Member {member_text(of.member)} was removed: it joined, but sent no SyncGroup within "
        "the rebalance timeout."
    ),
    "rebalance_timeout": lambda of: (
        f"Member {member_text(of.member)} was removed: it did not give up its partitions within "
        "the rebalance timeout."
    ),
    "static_member_replaced": lambda of: (
        f"Another process came as {member_text(of.member)}, with another subscription." + _says(of)
    ),
    "group_too_large": lambda of: (
        "The group has more members than group.max.size, and its members were asked to join again."
    ),
    "cooperative_step": lambda of: (
        f"Member {member_text(of.member)} had given up partitions, and joined again so that others "
        "can have them: the second step of a cooperative rebalance."
    ),
    "metadata_changed": _metadata,
    "subscription_changed": lambda of: (
        f"Member {member_text(of.member)} changed its subscription." + _says(of)
    ),
    "assignor_changed": lambda of: f"Member {member_text(of.member)} asks for another assignor.",
    "leader_rejoined": lambda of: (
        f"The leader, {member_text(of.member)}, asked for another assignment." + _says(of)
    ),
    "topics_changed": _topics,
    "regex_resolved": lambda of: "The regular expression of a member matches other topics now.",
    "record_refused": lambda of: "The record of the group became too large to be written.",
    "downgraded": lambda of: (
        "The last member of the consumer protocol went; the group is a classic group now."
    ),
}
# What may be due to the coordinator's own start.
_FAILOVER = ("session_expired", "member_joined", "group_too_large")


def course_sentence(rebalance: Rebalance) -> str:
    """What came of it: how long it took, who was waited for, what moved."""
    if rebalance.is_logged:
        return " ".join([*logged_phases(rebalance), *logged_partitions(rebalance)])
    parts = [*_phases(rebalance), *_company(rebalance), *moved_partitions(rebalance)]
    if refused := _refused_commits(rebalance):
        parts.append(refused)
    return " ".join(parts)


def _phases(of: Rebalance) -> Iterator[str]:
    said = numbers(of)
    if of.members == 0:
        yield f"{said}: the group is empty."
        return
    if of.ended_ms is None:
        yield f"{said}: " + ("another one began before its end." if of.interrupted else _open(of))
    else:
        yield f"{said} in {duration(of.ended_ms - of.started_ms)}{_members(of)}."
    if of.kind == "classic":
        yield from _join_phase(of)
    yield from waited_for(of)


def _open(of: Rebalance) -> str:
    return "members have not all joined yet." if of.joined_ms is None else "it goes on."


def _members(of: Rebalance) -> str:
    return f", {counted(of.members, 'member')}" if of.members is not None else ""


def _join_phase(of: Rebalance) -> Iterator[str]:
    late = [one for one in of.went if one.cause == "rebalance_timeout"]
    never = [one for one in of.went if one.cause == "never_joined"]
    if of.joined_ms is None:
        return
    took = duration(of.joined_ms - of.started_ms)
    if late:
        names = listed([member_text(one.member) for one in late])
        yield f"The others waited {took} for {names}, which did not join again and was removed."
    elif never:
        names = listed([member_text(one.member) for one in never])
        yield f"{took} were spent on {names}, which asked for a member id and never joined."
    elif of.waited_ms is not None and of.waited_ms >= WAIT_MS:
        yield f"All waited {duration(of.waited_ms)} for {member_text(of.last)}."
    if of.ended_ms is not None and of.ended_ms - of.joined_ms >= WAIT_MS and of.leader is not None:
        yield (
            f"The leader, {member_text(of.leader)}, took {duration(of.ended_ms - of.joined_ms)} "
            "to assign."
        )


def _company(of: Rebalance) -> Iterator[str]:
    """Who else came and went meanwhile."""
    own = of.trigger.member.member_id if of.trigger.member is not None else None
    came = [member_text(one) for one in of.came if one.member_id != own]
    late = ("rebalance_timeout", "never_joined")
    went = [
        member_text(one.member)
        for one in of.went
        if one.cause not in late and one.member is not None and one.member.member_id != own
    ]
    for names, what in ((came, "joined"), (went, "went")):
        if names:
            yield f"{listed(names)} {what} meanwhile."


def _refused_commits(of: Rebalance) -> str:
    count = of.figures.get("refused_commits", 0)
    return f"{counted(count, 'commit')} {'was' if count == 1 else 'were'} refused." if count else ""


COORDINATOR_LINES: dict[str, Callable[[Event], str]] = {
    "coordinator_started": lambda of: "The coordinator started.",
    "coordinator_stopped": lambda of: "The coordinator was stopped.",
    "shard_loaded": lambda of: "The coordinator loaded the group.",
    "topics_changed": lambda of: _topic_change(of)[0].upper() + _topic_change(of)[1:] + ".",
    "events_dropped": lambda of: f"{counted(of.count or 0, 'event')} of this time were not kept.",
}
"""By kind: sentences for what concerns the whole coordinator."""
_SINGLE: dict[str, Callable[[Event], str]] = {
    **LOGGED_LINES,
    **COORDINATOR_LINES,
    "group_created": lambda of: "The group was created.",
    "group_deleted": lambda of: {
        "requested": "The group was deleted by request.",
        "logged_deletion": "The group was removed: whether it was deleted or expired, the log "
        "does not tell.",
    }.get(of.cause or "", "The group was removed: it was empty, and its last offset had expired."),
    "group_migrated": lambda of: (
        "The group is a consumer group now."
        if of.cause == "upgraded"
        else "The group is a classic group now."
    ),
    "member_fenced": lambda of: (
        f"Member {member_text(of.member)} was fenced: it came with "
        + {"old_epoch": "an epoch that is over", "newer_epoch": "an epoch it was never given"}.get(
            of.cause or "", "a state that is not known here"
        )
        + ", and has to join again."
    ),
    "heartbeat_late": lambda of: (
        f"Member {member_text(of.member)} was heard of again after {duration(of.silent_ms or 0)} "
        "of silence, shortly before its session timeout."
    ),
    "request_refused": lambda of: (
        f"{safe(of.detail or '')} of {member_text(of.member)} was refused with "
        f"{safe(of.cause or '')}"
        + (f", {of.count:,} times by now." if (of.count or 0) > 1 else ".")
    ),
    "join_held": lambda of: (
        f"The JoinGroup of {member_text(of.member)} was held for {duration(of.count or 0)}: "
        + {
            "quarantine": "the client came and went too often (group.quarantine.flaps).",
            "rebalance_interval": "the group had rebalanced shortly before "
            "(group.rebalance.min.interval.ms).",
        }.get(of.cause or "", f"{safe(of.cause or '')}.")
    ),
    "removal_put_off": lambda of: (
        f"Member {member_text(of.member)} "
        + ("left" if of.cause == "left" else "was silent for its session timeout")
        + f"; its removal waits up to {duration(of.count or 0)}, since the group had rebalanced "
        "shortly before (group.rebalance.min.interval.ms)."
    ),
    "finding": lambda of: f"Assignment: {safe(of.cause or '')} ({safe(of.detail or '')}).",
    "lag_grows": lambda of: (
        f"Partition {safe(of.detail or '')} is {counted(of.count or 0, 'record')} behind, and "
        f"its owner has committed nothing for {duration(of.silent_ms or 0)}."
    ),
}


def single_lines(events: Iterable[Event]) -> Iterator[Line]:
    """Lines for events that are no part of a rebalance."""
    for event in events:
        tell = _SINGLE.get(event.kind)
        if tell is not None:
            yield Line(event.timestamp_ms, tell(event), event_fields(event))


def event_fields(event: Event) -> dict[str, Any]:
    """An event as JSON has it."""
    fields: dict[str, Any] = {"kind": event.kind, "timestamp_ms": event.timestamp_ms}
    for name in ("generation_id", "cause", "count", "detail", "silent_ms"):
        value = getattr(event, name)
        if value is not None:
            fields[name] = value
    if event.member is not None:
        fields["member"] = {
            name: value
            for name in ("member_id", "group_instance_id", "client_id", "client_host", "reason")
            if (value := getattr(event.member, name)) is not None
        }
    return fields | dict(event.figures or {})
