"""A group member's side of an assignor, the same in every client: what it remembers, the bytes
that it sends when it joins and, if it leads, those that it sends to all.

Must know no client library; each adapter turns its library's objects into these arguments.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import FrameType
from typing import Any, TypeVar

from pykcoord.assignors import (
    Assignor,
    Subscription,
    assign,
    encode_assignment,
    encode_subscription,
    sticky_user_data,
)
from pykcoord.consumer_protocol import TopicPartition
from pykcoord.errors import ArgumentError

_Caller = TypeVar("_Caller")
_Base = TypeVar("_Base")


class Member:
    """One consumer's memory for one assignor.

    `strategy`: one of `pykcoord.assignors.STRATEGIES`, or an assignor of one's own; of a class,
    each member makes an instance for itself.
    """

    def __init__(self, strategy: str | Assignor | type[Assignor]) -> None:
        self.strategy = strategy() if isinstance(strategy, type) else strategy
        self.partitions: list[TopicPartition] | None = None
        self.generation_id = -1

    def subscription(
        self,
        topics: Iterable[str],
        owned_partitions: Iterable[tuple[str, int]],
        generation_id: int,
        rack_id: str | None,
    ) -> bytes:
        """The metadata for JoinGroup, v3, byte for byte as the Java class of that name has it.

        `owned_partitions`: what the member goes on reading while it joins: nothing in an eager
        rebalance. `generation_id`: the member's, below 0 for none.
        """
        wanted = sorted(topics)
        subscription = Subscription(
            topics=wanted,
            owned_partitions=list(owned_partitions),
            generation_id=generation_id,
            rack_id=rack_id,
            user_data=self._user_data(wanted),
        )
        return encode_subscription(subscription)

    def assign(
        self, topics: Mapping[str, int | Sequence[Sequence[str]]], members: dict[str, Subscription]
    ) -> dict[str, bytes]:
        """The leader's answer: an assignment for SyncGroup for each member, as Java encodes it."""
        assignment = assign(self.strategy, topics, members)
        return {member: encode_assignment(given) for member, given in assignment.items()}

    def assigned(self, partitions: Iterable[tuple[str, int]], generation_id: int) -> None:
        """Remembers what this member was given; `generation_id` below 0: its client hides it."""
        self.partitions = [TopicPartition(topic, partition) for topic, partition in partitions]
        self.generation_id = generation_id
        if isinstance(self.strategy, Assignor):
            self.strategy.on_assignment(self.partitions, generation_id)

    def _user_data(self, topics: Sequence[str]) -> bytes | None:
        if isinstance(self.strategy, Assignor):
            return self.strategy.user_data(topics)
        if self.strategy == "sticky" and self.partitions is not None:
            known = self.generation_id if self.generation_id >= 0 else None
            return sticky_user_data(self.partitions, known)
        if self.strategy == "cooperative-sticky":
            return struct.pack(">i", self.generation_id)
        return None


def catalogue(
    members: Mapping[str, Subscription],
    partitions_for_topic: Callable[[str], Collection[int] | None],
    racks: Callable[[str, int], Sequence[str]],
) -> dict[str, int | list[Sequence[str]]]:
    """The topics that members subscribe to, as far as the client knows them, for `Member.assign`.

    `partitions_for_topic` and `racks` look into the client's metadata. Racks are looked up only
    if some member has one (KIP-881).
    """
    with_racks = any(subscription.rack_id for subscription in members.values())
    known: dict[str, int | list[Sequence[str]]] = {}
    for topic in dict.fromkeys(t for subscription in members.values() for t in subscription.topics):
        if numbers := partitions_for_topic(topic):
            count = max(numbers) + 1
            known[topic] = [racks(topic, n) for n in range(count)] if with_racks else count
    return known


def dropping_in(base: type[_Base], assignor: Assignor | type[Assignor]) -> type[_Base]:
    """A class of a client's assignors that computes what `assignor` does.

    Raises ArgumentError for what is no assignor, or has no name.
    """
    fields = {"name": _checked_name(assignor), "strategy": assignor, "__module__": base.__module__}
    return type("DropIn", (base,), fields)


def _checked_name(assignor: Assignor | type[Assignor]) -> str:
    """The name of one's own assignor, by which members agree on it.

    Raises ArgumentError for what is no assignor, or has no name.
    """
    kind = assignor if isinstance(assignor, type) else type(assignor)
    if not issubclass(kind, Assignor):
        raise ArgumentError("assignor", f"{assignor!r} is no pykcoord.Assignor")
    name = getattr(assignor, "name", None)
    if not isinstance(name, str) or not name:
        raise ArgumentError("assignor", f"{assignor!r} has no `name`, which members agree on")
    return name


def calling(kind: type[_Caller]) -> tuple[_Caller, Mapping[str, Any]] | None:
    """The object of that class that is calling, with the local variables of its method, or None.

    Java's consumer hands its assignors what members own, their generation and their instance ids.
    The Python clients keep some of it to themselves, and an assignor is given no way back to its
    consumer, so the way is that of the call.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        variables = frame.f_locals
        if isinstance(found := variables.get("self"), kind):
            return found, variables
        frame = frame.f_back
    return None
