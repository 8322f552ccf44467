"""Share and streams groups, read from their records: the machine keeps these, and knows no more
than that such a group is there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pykcoord.record_fields import decode_key, decode_value
from pykcoord.watch.model import WatchedGroup, WatchedMember

__all__ = ["by_group", "group_of", "is_other"]

# The types of their records: of members, of the group, of what members have, and the topology.
_MEMBERS = {10, 19}
_GROUPS = {11, 17}
_TARGETS = {12, 20}
_OWNED = {14, 22}
_TOPOLOGY = 23


def is_other(kind: str) -> bool:
    """Whether records of that kind are of such groups."""
    return kind.startswith(("ShareGroup", "StreamsGroup"))


def by_group(records: Mapping[bytes, bytes]) -> dict[str, dict[bytes, bytes]]:
    """The live records by group id; those that cannot be read are left out."""
    found: dict[str, dict[bytes, bytes]] = {}
    for key, value in records.items():
        fields = decode_key(key)
        if fields is not None:
            found.setdefault(fields["groupId"], {})[key] = value
    return found


def group_of(
    group_id: str,
    kind: str,
    state: str,
    records: Mapping[bytes, bytes],
    names: Mapping[bytes, str],
) -> WatchedGroup:
    """The group that the records make. `state` is what the machine says of it."""
    epoch: int | None = None
    target_epoch: int | None = None
    topics: dict[str, list[str]] = {}
    members: dict[str, dict[str, Any]] = {}
    for record_type, member_id, fields in _decoded(records):
        if record_type in _GROUPS:
            epoch = fields["epoch"]
        elif record_type in _TARGETS:
            target_epoch = fields["assignmentEpoch"]
        elif record_type == _TOPOLOGY:
            topics = _topics_of(fields)
        elif record_type in _MEMBERS | _OWNED:
            members.setdefault(member_id, {}).update(fields)
    shown = [
        _member(member_id, fields, kind, topics, names)
        for member_id, fields in sorted(members.items())
        if "clientId" in fields
    ]
    return WatchedGroup(
        group_id, kind, _state(kind, state, shown, epoch, target_epoch), epoch,
        "simple" if kind == "share" else "", shown,
    )  # fmt: skip


def _decoded(records: Mapping[bytes, bytes]) -> Iterator[tuple[int, str, dict[str, Any]]]:
    for key, value in records.items():
        fields, of = decode_value(key, value), decode_key(key)
        if fields is not None and of is not None:
            yield int.from_bytes(key[:2], "big"), of.get("memberId", ""), fields


def _state(
    kind: str, state: str, members: list[WatchedMember], epoch: int | None, target: int | None
) -> str:
    """ShareGroup.state and StreamsGroup.state, as far as records go: whether topics that a topology
    names are there (NotReady) is not in them."""
    if not members:
        return "Empty"
    if kind == "share":
        return "Stable"
    if epoch is not None and target is not None and epoch > target:
        return "Assigning"
    if any(member.epoch != target for member in members):
        return "Reconciling"
    return "Stable"


def _topics_of(topology: Mapping[str, Any]) -> dict[str, list[str]]:
    """The topics that a task of each subtopology reads."""
    return {
        one["subtopologyId"]: [
            *(one["sourceTopics"] or ()),
            *(topic["name"] for topic in one["repartitionSourceTopics"] or ()),
        ]
        for one in topology["subtopologies"] or ()
    }


def _member(
    member_id: str,
    fields: Mapping[str, Any],
    kind: str,
    topics: Mapping[str, list[str]],
    names: Mapping[bytes, str],
) -> WatchedMember:
    owned: dict[str, list[int]] = {}
    if kind == "share":
        for one in fields.get("assignedPartitions") or ():
            name = names.get(one["topicId"], one["topicId"].hex())
            owned.setdefault(name, []).extend(one["partitions"])
    for task in fields.get("activeTasks") or () if kind == "streams" else ():
        for topic in topics.get(task["subtopologyId"], ()):
            owned.setdefault(topic, []).extend(task["partitions"])
    return WatchedMember(
        member_id, fields.get("instanceId"), fields["clientId"], fields["clientHost"],
        fields.get("memberEpoch"),
        {topic: sorted(partitions) for topic, partitions in sorted(owned.items())},
        sorted(fields.get("subscribedTopicNames") or {one for of in topics.values() for one in of}),
    )  # fmt: skip
