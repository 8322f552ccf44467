"""One group for its page: members with their partitions, what nobody owns, and its story. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pykcoord.catalogue import Topic
from pykcoord.events import Event
from pykcoord.explain import explain
from pykcoord.web.reading import Group, Member, Place
from pykcoord.web.timeline import spans
from pykcoord.web.words import sentence

__all__ = ["MOST_EVENTS", "MOST_MEMBERS", "MOST_PLACES", "MOST_REBALANCES", "group_page"]

MOST_PLACES = 5_000
"""Partitions on the page of one group; those beyond are counted."""
MOST_MEMBERS = 1_000
"""Members on it, likewise."""
MOST_REBALANCES = 20
"""Rebalances with their causes on it: the newest."""
MOST_EVENTS = 100
"""Sentences on it: the newest."""


def group_page(
    group_id: str,
    group: Group | None,
    committed: Mapping[Place, Any],
    topics: Mapping[str, Topic],
    events: Sequence[Event],
) -> dict[str, Any]:
    """All but ends of partitions. `places` are its partitions in order, `owners` the numbers of the
    members that own each. `group` None: it is not there, and only what happened is told."""
    members = group.members[:MOST_MEMBERS] if group is not None else []
    owners: dict[Place, list[int]] = {}
    for number, member in enumerate(members):
        for topic, partitions in member.owned.items():
            for partition in partitions:
                owners.setdefault((topic, partition), []).append(number)
    places, left_out = _places(members, committed, topics, owners)
    return {
        "id": group_id,
        "is_there": group is not None,
        "type": _type(group),
        "state": group.state if group is not None else "Dead",
        "protocol_type": group.protocol_type if group is not None else "",
        "protocol": group.protocol if group is not None else "",
        "epoch": group.epoch if group is not None else None,
        "assignment_epoch": group.assignment_epoch if group is not None else None,
        "members": [_member(one) for one in members],
        "members_left_out": len(group.members) - len(members) if group is not None else 0,
        "places": places,
        "places_left_out": left_out,
        "owners": owners,
        "spans": spans(events),
        "why": _why(group_id, events),
        "story": [
            {"at_ms": one.timestamp_ms, "kind": one.kind, "text": sentence(one)}
            for one in events[-MOST_EVENTS:]
        ],
    }


def _why(group_id: str, events: Sequence[Event]) -> dict[str, Any]:
    """What `pykcoord explain` says of these events: causes of rebalances, and what repeats."""
    report = explain(events, group_id)
    rebalances = [line for line in report.lines if "rebalance" in line.fields]
    return {
        "told_by": "log" if report.is_logged else "recorder",
        "rebalances": [
            {"at_ms": line.at_ms, "text": line.text} for line in rebalances[-MOST_REBALANCES:]
        ],
        "patterns": [
            {"text": one.text, "suggestion": one.suggestion, "evidence": one.evidence}
            for one in report.patterns
        ],
    }


def _type(group: Group | None) -> str:
    if group is None:
        return ""
    return group.type if group.protocol_type or group.members else "simple"


def _member(member: Member) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "rack_id": member.rack_id,
        "epoch": member.epoch,
        "is_classic": member.is_classic,
        "topics": member.topics,
        "topic_regex": member.topic_regex,
        "partitions": sum(map(len, member.owned.values())),
        "coming": _difference(member.target, member.owned),
        "going": _difference(member.owned, member.target),
        "unreadable": member.unreadable,
    }


def _difference(
    these: Mapping[str, list[int]] | None, others: Mapping[str, list[int]] | None
) -> int:
    if these is None or others is None:
        return 0
    return sum(
        len(set(partitions) - set(others.get(topic, ()))) for topic, partitions in these.items()
    )


def _places(
    members: Sequence[Member],
    committed: Mapping[Place, Any],
    topics: Mapping[str, Topic],
    owners: Mapping[Place, Any],
) -> tuple[list[Place], int]:
    """Partitions that are owned or committed, and all of the topics that a member subscribes to."""
    read = {topic for member in members for topic in (*member.topics, *member.owned)}
    places = {*committed, *owners}
    count = len(places)
    for name in read:
        if (topic := topics.get(name)) is not None:
            more = [
                (name, number)
                for number in range(min(topic.partitions, MOST_PLACES))
                if (name, number) not in places
            ]
            known = sum(1 for at in places if at[0] == name)
            count += max(topic.partitions - known, 0)
            places.update(more)
    shown = sorted(places)[:MOST_PLACES]
    return shown, max(count - len(shown), 0)
