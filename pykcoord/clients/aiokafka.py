"""Kafka's assignors for aiokafka, computed by the native core, and one's own.

    AIOKafkaConsumer(..., partition_assignment_strategy=[StickyAssignor])

They share groups with Java consumers of the class of the same name, as leader or follower. Must
decide nothing: aiokafka's objects become those of `pykcoord.assignors`, and bytes come back.

aiokafka revokes everything before it joins (its rebalances are eager), uses the class that it is
given and never an instance, and shows a leader no more of a member than a subscription v0.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from pykcoord.assignors import Assignor, Subscription, decode_subscription
from pykcoord.clients._member import Member, calling, catalogue, dropping_in
from pykcoord.errors import ArgumentError, MissingExtraError

try:
    from aiokafka.consumer.group_coordinator import GroupCoordinator
    from aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor
except ImportError as error:
    raise MissingExtraError(
        "pykcoord.clients.aiokafka needs aiokafka: pip install 'pykcoord[aiokafka]'",
        name=error.name,
    ) from error

__all__ = [
    "CooperativeStickyAssignor",
    "RangeAssignor",
    "RoundRobinAssignor",
    "StickyAssignor",
    "drop_in",
]

_log = logging.getLogger(__name__)


class _DropIn(AbstractPartitionAssignor):
    """What aiokafka asks of an assignor: class methods, hence a memory for each consumer here.

    `rack_id` is the consumer's rack (Java's `client.rack`), which aiokafka does not have: a
    subclass sets it.
    """

    strategy: ClassVar[str | Assignor | type[Assignor]]
    rack_id: ClassVar[str | None] = None
    # By the coordinator object of each consumer.
    _members: ClassVar[weakref.WeakKeyDictionary[Any, Member]]

    def __init_subclass__(cls) -> None:
        cls._members = weakref.WeakKeyDictionary()

    @classmethod
    def metadata(cls, topics: Iterable[str]) -> bytes:
        """The subscription to `topics` for JoinGroup, encoded."""
        member, generation_id = cls._joining()
        return member.subscription(topics, (), generation_id, cls.rack_id)

    @classmethod
    def assign(cls, cluster: Any, members: Mapping[str, Any]) -> dict[str, bytes]:
        """The encoded assignments by member id; called in the group's leader only."""
        caller = calling(GroupCoordinator)
        response = caller[1].get("response") if caller else None
        subscriptions = {
            member: Subscription(metadata.subscription, user_data=metadata.user_data)
            for member, metadata in members.items()
        }
        if response is not None:
            subscriptions |= _subscriptions(response)
        elif cls.strategy == "cooperative-sticky":
            _refuse_what_may_be_owned(members)

        def racks(topic: str, partition: int) -> list[str]:
            replicas = cluster._partitions[topic][partition].replicas
            brokers = [cluster.broker_metadata(replica) for replica in replicas]
            return [broker.rack for broker in brokers if broker is not None and broker.rack]

        topics = catalogue(subscriptions, cluster.partitions_for_topic, racks)
        return cls._joining()[0].assign(topics, subscriptions)

    @classmethod
    def on_assignment(cls, assignment: Any) -> None:
        """Remembers the partitions of this member."""
        member, generation_id = cls._joining()
        member.assigned(assignment.partitions(), generation_id)

    @classmethod
    def _joining(cls) -> tuple[Member, int]:
        """The memory of the consumer that is calling, and its generation, -1 if it has none.

        Other callers share one memory, as all do with aiokafka's own sticky assignor.
        """
        caller = calling(GroupCoordinator)
        owner = caller[0] if caller else cls
        if owner not in cls._members:
            cls._members[owner] = Member(cls.strategy)
        return cls._members[owner], caller[0].generation if caller else -1


class RangeAssignor(_DropIn):
    """Java's `RangeAssignor`: per topic, a block of partitions for each member."""

    name = strategy = "range"


class RoundRobinAssignor(_DropIn):
    """Java's `RoundRobinAssignor`: all partitions of all topics in turn."""

    name = strategy = "roundrobin"


class StickyAssignor(_DropIn):
    """Java's `StickyAssignor`: balanced, and members keep what they can."""

    name = strategy = "sticky"


class CooperativeStickyAssignor(_DropIn):
    """Java's `CooperativeStickyAssignor`, in a member that revokes everything before it joins.

    For a place in a group of cooperative members: they read on and keep what they can, while this
    one claims nothing, as Java's consumer does with the same class beside an eager one (KIP-429).
    What it had may go to another; where all members are aiokafka's, use `StickyAssignor`.
    """

    name = strategy = "cooperative-sticky"


def drop_in(assignor: Assignor | type[Assignor]) -> type[AbstractPartitionAssignor]:
    """One's own assignor as aiokafka takes it.

    Of a class, which is called without arguments, each consumer gets an instance of its own; an
    instance is for one consumer. Raises ArgumentError for anything else, or without a name.
    """
    return dropping_in(_DropIn, assignor)


def _subscriptions(response: Any) -> dict[str, Subscription]:
    """All that JoinGroup's answer says of the members: aiokafka has cut it down to v0."""
    subscriptions = {}
    for member_id, *instance_id, metadata in response.members:
        try:
            subscription = decode_subscription(metadata, *instance_id)
        except ArgumentError:
            # aiokafka itself got as far as the fields of v0.
            _log.warning("the subscription of member %s is cut off; only v0 is used", member_id)
        else:
            subscriptions[member_id] = subscription
    return subscriptions


def _refuse_what_may_be_owned(members: Mapping[str, Any]) -> None:
    """A leader that cannot see what cooperative members own would hand it out a second time."""
    cooperative = [member for member, metadata in members.items() if metadata.version > 0]
    if cooperative:
        raise ArgumentError(
            "members",
            f"{cooperative[0]} may own partitions, which this version of aiokafka does not show; "
            "use StickyAssignor in all members, or aiokafka 0.14",
        )
