"""One plain sentence for each event, for a reader of the console."""

from __future__ import annotations

from pykcoord.events import REBALANCE_STARTS, Event, EventMember
from pykcoord.explain.logged_story import LOGGED_LINES
from pykcoord.explain.story import COORDINATOR_LINES

__all__ = ["sentence"]

_CAUSES = {
    "member_joined": "{who} joined",
    "leader_rejoined": "the leader, {who}, joined again",
    "metadata_changed": "{who} joined again with another subscription",
    "static_member_replaced": "the static member {who} came back with another subscription",
    "member_left": "{who} left",
    "session_expired": "{who} was silent for its session timeout",
    "rebalance_timeout": "{who} did not join again, or give up partitions, in time",
    "sync_expired": "{who} sent no SyncGroup in time",
    "topics_changed": "topics or partitions came or went",
    "subscription_changed": "{who} subscribes to other topics",
    "assignor_changed": "members prefer another assignor",
    "regex_resolved": "regular expressions match other topics",
    "downgraded": "the last member of the consumer protocol went",
    "group_too_large": "the group has more members than group.max.size",
    "record_refused": "the group's record would be too large",
    "logged_members": "members came or went",
    "logged_subscription": "{who} subscribes to other topics",
    "logged_partitions": "there are more partitions than before",
    "logged_step": "as in the second step of a cooperative rebalance",
    "logged_topics": "topics that members subscribe to changed",
    "logged_nothing": "the log does not tell why",
}
_GONE = {
    "left": "{who} left",
    "removed_by_admin": "{who} was removed by an administrator",
    "session_expired": "{who} was removed: nothing was heard of it for {silent}",
    "rebalance_timeout": "{who} was removed: it did not join again in time",
    "sync_expired": "{who} was removed: it sent no SyncGroup in time",
    "static_member_replaced": "{who} was replaced by a member with its instance id",
    "group_too_large": "{who} was removed: the group is too large",
    "logged_absence": "{who} went; whether it left or fell silent, the log does not tell",
}
_OTHERS = {
    "group_created": "The group was created",
    "member_joined": "{who} joined",
    "member_rejoined": "{who} joined again",
    "heartbeat_late": "{who} was heard of late: it had been silent for {silent}",
    "request_refused": "{detail} of {who} was refused with {code}",
    "join_phase_completed": "Generation {generation} begins, with {count}",
    "group_stable": "Generation {generation} is stable: {count} can have their partitions",
    "target_computed": "The assignor {detail} has decided; {count} have another target",
    "revocation_awaited": "{who} has {partitions} to give up",
    "member_reconciled": "{who} has come to its target, of {partitions}",
    "member_fenced": "{who} was refused: {cause}",
    "group_migrated": "The group was {cause}",
    "join_held": "{who} has to wait for {ms}: {cause}",
    "removal_put_off": "{who} is gone ({cause}), and is removed in up to {ms}",
    "group_deleted": "The group was deleted: {cause}",
    "finding": "About the assignment: {cause}, {detail}",
    "lag_grows": "{who} commits nothing of {detail}, which falls behind",
    "commits_resumed": "Of what moved nothing had been committed for up to {silent}",
}
_WHOLE = LOGGED_LINES | COORDINATOR_LINES


def sentence(event: Event) -> str:
    """What happened."""
    if (tell := _WHOLE.get(event.kind)) is not None:
        return tell(event)
    if event.kind in REBALANCE_STARTS:
        ended = event.kind == "rebalance_started"
        text = f"Rebalance after generation {{generation}}: {_cause(event)}"
        text = text if ended else f"Epoch {{generation}} begins: {_cause(event)}"
    elif event.kind == "member_gone":
        text = _GONE.get(event.cause or "", "{who} is gone: {cause}")
    else:
        text = _OTHERS.get(event.kind, event.kind.replace("_", " "))
    if text.startswith("{who}"):  # whose name is written as it is
        text = f"Member {text}"
    said = text.format_map(_fields(event))
    reason = event.member.reason if event.member is not None else None
    return said + (f"; it says: {reason}" if reason else ".")


def _cause(event: Event) -> str:
    return _CAUSES.get(event.cause or "", (event.cause or "not known").replace("_", " "))


def _fields(event: Event) -> dict[str, str]:
    count = event.count or 0
    return {
        "who": _who(event.member),
        "generation": str(event.generation_id),
        "count": f"{count:,} member{'' if count == 1 else 's'}",
        "partitions": f"{count:,} partition{'' if count == 1 else 's'}",
        "ms": f"{count / 1000:.1f} s",
        "detail": event.detail or "",
        "cause": (event.cause or "").replace("_", " "),
        "code": event.cause or "",
        "silent": f"{(event.silent_ms or 0) / 1000:.1f} s",
    }


def _who(member: EventMember | None) -> str:
    if member is None:
        return "a member"
    name = member.group_instance_id or member.client_id
    return f"{name} at {member.client_host.lstrip('/')}"
