"""A group as its log tells it beside the same group as its coordinator describes it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pykcoord.watch.model import WatchedGroup, WatchedMember, WatchedOffset

__all__ = ["differences", "is_rebalancing"]

# While these last, the coordinator knows members that no record names yet.
_REBALANCING = frozenset({"PreparingRebalance", "CompletingRebalance"})


def is_rebalancing(described: WatchedGroup | None) -> bool:
    """Whether the group is in a state that is not in the log."""
    return described is not None and described.state in _REBALANCING


def differences(
    logged: WatchedGroup | None,
    described: WatchedGroup | None,
    offsets: Sequence[WatchedOffset],
    answered: Sequence[WatchedOffset],
) -> list[str]:
    """What is not the same, in words; empty where all is. `logged` and `offsets` are of the log."""
    found = list(_of_group(logged, described))
    known = {(of.topic, of.partition): (of.offset, of.leader_epoch, of.metadata) for of in offsets}
    told = {(of.topic, of.partition): (of.offset, of.leader_epoch, of.metadata) for of in answered}
    for place in sorted(known.keys() | told.keys()):
        if known.get(place) != told.get(place):
            topic, partition = place
            found.append(
                f"offset of {topic}-{partition}: {known.get(place)} in the log, "
                f"{told.get(place)} by OffsetFetch"
            )
    return found


def _of_group(logged: WatchedGroup | None, described: WatchedGroup | None) -> Iterator[str]:
    if logged is None or described is None:
        # A group of which nothing but offsets is known may be described as none at all.
        if described is not None and (described.members or described.state != "Empty"):
            yield f"the group is not in the log, and described as {described.state}"
        if logged is not None and logged.members:
            yield "the group is in the log, and its coordinator does not know it"
        return
    # Whether topics of a topology are missing is in no record.
    if logged.state != described.state and described.state != "NotReady":
        yield f"state: {logged.state} in the log, {described.state} described"
    if described.epoch is not None and logged.epoch != described.epoch:
        yield f"epoch: {logged.epoch} in the log, {described.epoch} described"
    if logged.type != "streams" and logged.protocol != described.protocol and logged.members:
        yield f"protocol: {logged.protocol!r} in the log, {described.protocol!r} described"
    known = {one.member_id: one for one in logged.members}
    told = {one.member_id: one for one in described.members}
    for member_id in sorted(known.keys() | told.keys()):
        if member_id not in told or member_id not in known:
            where = "in the log only" if member_id in known else "described only"
            yield f"member {member_id}: {where}"
        elif (one := _comparable(known[member_id])) != (two := _comparable(told[member_id])):
            yield f"member {member_id}: {one} in the log, {two} described"


def _comparable(member: WatchedMember) -> tuple[object, ...]:
    owned = {topic: list(of) for topic, of in sorted(member.owned.items()) if of}
    return (
        member.instance_id, member.client_id, member.client_host, member.epoch, owned,
        list(member.subscribed),
    )  # fmt: skip
