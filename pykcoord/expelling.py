"""Removing a member from outside, as an administrator does: the request for each protocol.

A member that is still running hears of it with its next heartbeat, and joins again by itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from kio.schema.consumer_group_heartbeat.v0.request import ConsumerGroupHeartbeatRequest
from kio.schema.leave_group.v4 import request as v4
from kio.schema.leave_group.v5 import request as v5
from kio.schema.types import GroupId
from kio.static.primitive import i32, i32Timedelta

__all__ = ["consumer_leave", "leave_group"]

_LEAVES = i32(-1)


def leave_group(
    group_id: str, members: Iterable[tuple[str, str | None]], reason: str | None
) -> Any:
    """LeaveGroup for members of the classic protocol: member id and instance id of each. With a
    `reason` (KIP-800) version 5, without one version 4."""
    if reason is None:
        identities = tuple(v4.MemberIdentity(member_id=one, group_instance_id=instance)
                           for one, instance in members)  # fmt: skip
        return v4.LeaveGroupRequest(group_id=GroupId(group_id), members=identities)
    named = tuple(
        v5.MemberIdentity(member_id=one, group_instance_id=instance, reason=reason)
        for one, instance in members
    )
    return v5.LeaveGroupRequest(group_id=GroupId(group_id), members=named)


def consumer_leave(group_id: str, member_id: str) -> ConsumerGroupHeartbeatRequest:
    """The heartbeat by which a member of the consumer protocol (KIP-848) leaves. LeaveGroup does
    not know such members; this one asks for no epoch, so that anybody who may read the group can
    send it in the member's place."""
    return ConsumerGroupHeartbeatRequest(
        group_id=GroupId(group_id),
        member_id=member_id,
        member_epoch=_LEAVES,
        rebalance_timeout=i32Timedelta.parse(timedelta(milliseconds=-1)),
        subscribed_topic_names=None,
        topic_partitions=None,
    )
