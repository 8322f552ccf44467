"""What happens to groups: rebalances and their causes, members that go, groups that come and go.

An event comes once all is durable that its shard of the log had been given when it happened.
Heartbeats that are accepted make none.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = [
    "MOST_STARTS", "REBALANCE_STARTS", "Event", "EventMember", "log_event", "log_more_starts",
]  # fmt: skip

REBALANCE_STARTS = ("rebalance_started", "group_epoch_bumped")
"""Kinds of events with which a rebalance begins, of a classic group and of a consumer group."""
MOST_STARTS = 32
"""Rebalances that start in one turn and have a line of log each: thousands of lines would cost more
than the rebalances."""

logger = logging.getLogger("pykcoord.groups")

# Kind, group, generation, cause, member, count, detail, time, silence, figures
# (`_native.Turn.events`).
EventRow = tuple[
    str,
    str,
    int,
    str | None,
    tuple[str, str | None, str, str, str | None] | None,
    int | None,
    str | None,
    int,
    int | None,
    dict[str, int] | None,
]

_FINDINGS = {
    "assignment_replaced": "the coordinator assigns it; an assignment {detail} counts for nothing",
    "assignor_replaced": "an assignor failed or was late ({detail}); uniform took its place",
    "left_to_leader": "the coordinator cannot assign it ({detail}); a leading client is asked",
    "duplicate_partition": "its leader gave {count} partition(s) a second time, such as {detail}",
    "unknown_member": "its leader assigned to {count} stranger(s), such as {detail}",
    "unknown_partition": "its leader gave {count} partition(s) that do not exist, such as {detail}",
    "not_subscribed": "its leader gave {count} topic(s) to members that do not subscribe to them, "
    "such as {detail}",
}
_TEXTS = {
    "group_created": "created",
    "member_joined": "member joined",
    "member_rejoined": "member joined again",
    "heartbeat_late": "member heard of late",
    "request_refused": "request refused",
    "join_phase_completed": "the join phase is over",
    "group_stable": "stable",
    "member_gone": "member gone",
    "group_migrated": "migrated",
    "target_computed": "targets computed",
    "revocation_awaited": "has to give up",
    "member_reconciled": "has come to its target",
    "member_fenced": "member fenced",
    "join_held": "join held",
    "removal_put_off": "removal put off",
    "group_deleted": "deleted",
}
_COUNTED = {
    "revocation_awaited": "partitions",
    "member_reconciled": "partitions",
    "heartbeat_late": "times",
    "request_refused": "times",
    "join_held": "ms",
    "removal_put_off": "ms",
}


# Of an event as JSON; others are figures.
_FIELDS = {
    "kind", "group_id", "generation_id", "cause", "member", "count", "detail", "timestamp_ms",
    "silent_ms",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class EventMember:
    """A member as it was when something happened to it: its `member_id`, and what its client said.

    `group_instance_id` is None unless the member is static (KIP-345). `client_id` is that of the
    request header, `client_host` as Kafka writes it (`/127.0.0.1`); `reason` is what the client
    gave (KIP-800), at most 255 bytes of it.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    reason: str | None


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to the group `group_id`, in the generation `generation_id` (of a
    consumer group: in that group epoch), at `timestamp_ms` (ms since the epoch: the time of the
    turn). `kind` says what, and which of the other fields have a value.

    Of all groups:

    * `group_created`
    * `member_joined`: the `member` was not there before, or not under this id
    * `member_gone`: the `member`, and as `cause` one of `left`, `removed_by_admin`,
      `session_expired`, `rebalance_timeout`, `sync_expired`, `static_member_replaced`,
      `group_too_large`, `never_joined` (an id of KIP-394 that others waited for). `silent_ms`,
      where its session expired: for how long it said nothing
    * `heartbeat_late`: the `member` was heard of after `silent_ms`, more than three quarters of
      its session timeout; `count`: how often by now
    * `request_refused`: `cause` is Kafka's error code, `detail` its name of the API, `member` who
      asked, as it said; `count`: how often by now. This and the one before are told the first,
      second, fourth, eighth ... time in a generation
    * `group_migrated`: `cause` is `upgraded` (a consumer group now) or `downgraded` (a classic one
      now), with the `count` of members that stayed, and the `member` that came or went
    * `group_deleted`: `cause` is `requested` or `expired`

    Of classic groups:

    * `member_rejoined`: a `member` that was there before has joined again
    * `rebalance_started`: `cause` (as in the metric `pykcoord_rebalances_total`), and the `member`
      that caused it, where one did; `generation_id` is the one that ends. With the cause
      `metadata_changed`, `detail` says what of its metadata
    * `join_phase_completed`: the next generation begins, with `count` members (0: the group is
      empty) and the protocol `detail`; `member` is the one for which the others waited, if the
      phase ended because it joined
    * `group_stable`: every one of `count` members can have its assignment; `member` is the leader
      that assigned. `figures`, where the group had a generation before: `partitions` assigned,
      `moved` to another owner, the `least` that had to be; `unowned` for a while, for how long in
      all (`unowned_ms`) and at the longest (`longest_ms`); `refused_commits` meanwhile
    * `join_held`: the JoinGroup of a newcomer waits for `count` ms; `cause` is `rebalance_interval`
      or `quarantine`. Its `member` has no id yet
    * `removal_put_off`: the `member` left or expired (`cause`: `left` or `session_expired`), and
      stays for `count` ms, or until the group rebalances
    * `finding`: something about an assignment; `cause` is its kind in the metric
      `pykcoord_findings_total`, `count` how many, `detail` one of them

    Of consumer groups (KIP-848):

    * `group_epoch_bumped`: partitions are to be decided anew; `cause` is `member_joined`,
      `subscription_changed`, `assignor_changed`, `topics_changed`, `regex_resolved`, `member_left`,
      `session_expired`, `rebalance_timeout` or `sync_expired`, with the `member` that caused it,
      where one did; `generation_id` is the epoch that begins
    * `target_computed`: the assignor `detail` has decided; `count` members have another target
    * `revocation_awaited`: the `member` has `count` partitions to give up
    * `member_reconciled`: the `member` has come to its target, of `count` partitions; `figures` of
      those that it got on the way, as of `group_stable`
    * `member_fenced`: the `member` was refused with FENCED_MEMBER_EPOCH; `cause` is `old_epoch`,
      `newer_epoch` or `unknown_state`. Once for each epoch with which it comes

    Of groups whose log alone is read (docs/explain.md) causes begin with `logged_`, and there are
    `log_begins`, `instance_replaced` (`detail`: the member id before; `silent_ms`, where it had
    left for a while), `instance_away`, `offsets_went_back` (`count` partitions, such as `detail`,
    by `records` at most), `offsets_removed`, and `commits_resumed`: all of `count` partitions that
    moved have been committed, after `silent_ms` at most.

    Later versions may have further kinds.
    """

    kind: str
    group_id: str
    generation_id: int
    cause: str | None = None
    member: EventMember | None = None
    count: int | None = None
    detail: str | None = None
    timestamp_ms: int = 0
    silent_ms: int | None = None
    figures: Mapping[str, int] | None = None

    @classmethod
    def of(cls, row: EventRow) -> Event:
        """An event as the native node has it."""
        kind, group_id, generation_id, cause, member, count, detail, at_ms, silent_ms, figures = row
        of_member = EventMember(*member) if member is not None else None
        what = (kind, group_id, generation_id, cause, of_member, count, detail)
        return cls(*what, at_ms, silent_ms, figures)

    @classmethod
    def of_json(cls, fields: Mapping[str, Any]) -> Event:
        """An event as a value of `__pykcoord_group_events` has it. Unknown fields that are numbers
        are among its `figures`; KeyError, TypeError and ValueError for what is no event."""
        member = fields.get("member")
        of_member = None
        if member is not None:
            names = ("group_instance_id", "client_id", "client_host", "reason")
            rest = (member.get(name) for name in names)
            of_member = EventMember(member["member_id"], *rest)
        others = fields.keys() - _FIELDS
        figures = {name: fields[name] for name in sorted(others) if isinstance(fields[name], int)}
        return cls(
            str(fields["kind"]),
            str(fields["group_id"]),
            int(fields.get("generation_id", -1)),
            fields.get("cause"),
            of_member,
            fields.get("count"),
            fields.get("detail"),
            int(fields["timestamp_ms"]),
            fields.get("silent_ms"),
            figures or None,
        )


def log_event(event: Event) -> None:
    """One line: a finding as a warning, the start of a rebalance at info (of a consumer group: that
    its epoch was bumped), the rest at debug."""
    if event.kind == "finding":
        assert event.cause is not None
        text = _FINDINGS[event.cause].format(count=event.count, detail=event.detail)
        _log(logging.WARNING, event, text, {"event": "assignment", "kind": event.cause})
    elif event.kind in REBALANCE_STARTS:
        _log(logging.INFO, event, f"rebalance, {event.cause}", {"event": "rebalance"})
    elif logger.isEnabledFor(logging.DEBUG):
        text = _TEXTS.get(event.kind, event.kind)
        if event.cause is not None:
            text += f", {event.cause}"
        if event.count is not None:
            counted = _COUNTED.get(event.kind, "members")
            is_one = event.count == 1 and counted != "ms"
            text += f", {event.count} {counted[:-1] if is_one else counted}"
        _log(logging.DEBUG, event, text, {"event": event.kind})


def log_more_starts(count: int) -> None:
    """One line for the starts of rebalances of a turn that have no line of their own."""
    text = "rebalances of %d more groups started at the same time"
    logger.info(text, count, extra={"event": "rebalances", "count": count})


def _log(level: int, event: Event, text: str, fields: dict[str, Any]) -> None:
    fields |= {"group_id": event.group_id, "generation_id": event.generation_id}
    named = {"cause": event.cause, "count": event.count, "detail": event.detail}
    named["silent_ms"] = event.silent_ms
    fields |= {name: value for name, value in named.items() if value is not None}
    if event.member is not None:
        member = event.member
        text += f": {_described(member)}"
        fields |= {
            "member_id": member.member_id,
            "group_instance_id": member.group_instance_id,
            "client_id": member.client_id,
            "client_host": member.client_host,
            "reason": member.reason,
        }
    logger.log(
        level,
        "group %s, generation %d: %s",
        event.group_id,
        event.generation_id,
        text,
        extra=fields,
    )


def _described(member: EventMember) -> str:
    instance = f", instance {member.group_instance_id}" if member.group_instance_id else ""
    text = f"member {member.member_id}{instance} (client {member.client_id} {member.client_host})"
    return f"{text}, because: {member.reason}" if member.reason else text
