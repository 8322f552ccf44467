"""What is known of watched groups, whatever it was learnt from, as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

__all__ = ["Assigned", "Source", "WatchedGroup", "WatchedMember", "WatchedOffset"]

Assigned = Mapping[str, Sequence[int]]
"""Topic to partitions."""


class WatchedMember(NamedTuple):
    """A member of a group: `member_id`, `instance_id` (group.instance.id, None: not static),
    `client_id` and `client_host` as Kafka has them. `epoch` is the member's own, None in classic
    groups and where it is not known; `owned` what it has now; `subscribed` the topics it asked for,
    as far as it said."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    epoch: int | None
    owned: Assigned
    subscribed: Sequence[str]


class WatchedGroup(NamedTuple):
    """A group, `group_id`, with its `members`. `type` is classic, consumer, share or streams;
    `epoch` its generation or epoch, None where it has none or it is not known; `protocol` the
    assignor. `state` is Kafka's name of it, as far as records tell: members that are about to join
    are not in them."""

    group_id: str
    type: str
    state: str
    epoch: int | None
    protocol: str
    members: Sequence[WatchedMember]


class WatchedOffset(NamedTuple):
    """A committed offset of `group_id` for a partition of `topic`, with its `leader_epoch` (-1:
    none) and `metadata`. `commit_timestamp` is in ms since the epoch, -1 where it is not known;
    `topic_id` 16 bytes, zeros where the record has none; `is_pending`: an open transaction has
    another one for the partition."""

    group_id: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: int
    topic_id: bytes
    is_pending: bool


class Source(Protocol):
    """Where groups and offsets come from."""

    @property
    def version(self) -> object:
        """Equal as long as nothing changed."""

    def groups(self) -> list[WatchedGroup]:
        """All groups, in the order of their ids."""

    def offsets(self) -> list[WatchedOffset]:
        """All committed offsets, in the order of group, topic and partition."""
