"""Kafka's assignors for kafka-python 3, computed by the native core, and one's own.

    KafkaConsumer(..., partition_assignment_strategy=[CooperativeStickyAssignor])

They share groups with Java consumers of the class of the same name, as leader or follower. Must
decide nothing: kafka-python's objects become those of `pykcoord.assignors`, and bytes come back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from pykcoord.assignors import Assignor, Subscription
from pykcoord.clients._member import Member, calling, catalogue, dropping_in
from pykcoord.errors import MissingExtraError

try:
    from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor, RebalanceProtocol
    from kafka.coordinator.consumer import ConsumerCoordinator
    from kafka.structs import TopicPartition
except ImportError as error:
    raise MissingExtraError(
        "pykcoord.clients.kafka_python needs kafka-python 3.0 or newer: "
        "pip install 'pykcoord[kafka-python]'",
        name=error.name,
    ) from error

__all__ = [
    "CooperativeStickyAssignor",
    "RangeAssignor",
    "RoundRobinAssignor",
    "StickyAssignor",
    "drop_in",
]


class _DropIn(AbstractPartitionAssignor):
    """What kafka-python asks of an assignor; each consumer has an instance of its own.

    `rack_id` is the consumer's rack (Java's `client.rack`). kafka-python does not give it to
    assignors: a subclass sets it.
    """

    strategy: ClassVar[str | Assignor | type[Assignor]]
    rack_id: str | None = None

    def __init__(self) -> None:
        self._member = Member(self.strategy)

    def metadata(self, topics: Iterable[str]) -> bytes:
        """The subscription to `topics` for JoinGroup, encoded."""
        generation_id, owned = self._owned(frozenset(topics))
        return self._member.subscription(topics, owned, generation_id, self.rack_id)

    def assign(self, cluster: Any, members: Iterable[Any]) -> dict[str, bytes]:
        """The encoded assignments by member id; called in the group's leader only."""
        subscriptions = {member.member_id: _subscription(member) for member in members}

        def racks(topic: str, partition: int) -> list[str]:
            wanted = TopicPartition(topic, partition)
            return [
                broker.rack
                for broker in cluster.brokers()
                if broker.rack and cluster.is_replica_node(wanted, broker.node_id)
            ]

        topics = catalogue(subscriptions, cluster.partitions_for_topic, racks)
        return self._member.assign(topics, subscriptions)

    def on_assignment(self, assignment: Any, generation: int) -> None:
        """Remembers the partitions of this member, and their generation."""
        self._member.assigned(assignment.partitions(), generation)

    def _owned(self, topics: frozenset[str]) -> tuple[int, Sequence[tuple[str, int]]]:
        """The member's generation, and what it goes on reading while it joins: nothing."""
        return self._member.generation_id, ()


class RangeAssignor(_DropIn):
    """Java's `RangeAssignor`: per topic, a block of partitions for each member."""

    name = strategy = "range"


class RoundRobinAssignor(_DropIn):
    """Java's `RoundRobinAssignor`: all partitions of all topics in turn."""

    name = strategy = "roundrobin"


class StickyAssignor(_DropIn):
    """Java's `StickyAssignor`: balanced, and members keep what they can; rebalances are eager."""

    name = strategy = "sticky"


class CooperativeStickyAssignor(_DropIn):
    """Java's `CooperativeStickyAssignor`: the same balance, and members read on while they join.

    Beside an eager assignor in the list, rebalances are eager, as in Java: the way to bring a
    running group over (KIP-429).
    """

    name = strategy = "cooperative-sticky"

    def supported_protocols(self) -> list[RebalanceProtocol]:
        return [RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER]

    def _owned(self, topics: frozenset[str]) -> tuple[int, Sequence[tuple[str, int]]]:
        """What the consumer owns, not what it was given last: a member that was expelled owns
        nothing, and would be waited for in vain to give back what it claims."""
        caller = calling(ConsumerCoordinator)
        if caller is None:
            owned = self._member.partitions or []
            return self._member.generation_id, [tp for tp in owned if tp.topic in topics]
        coordinator, _ = caller
        generation_id: int = coordinator._generation.generation_id
        if coordinator._rebalance_protocol is RebalanceProtocol.EAGER:
            return generation_id, ()
        return generation_id, sorted(coordinator._subscription.assigned_partitions())


def drop_in(assignor: Assignor | type[Assignor]) -> type[AbstractPartitionAssignor]:
    """One's own assignor as kafka-python takes it; its rebalances are eager.

    Of a class, which is called without arguments, each consumer gets an instance of its own; an
    instance is for one consumer. Raises ArgumentError for anything else, or without a name.
    """
    return dropping_in(_DropIn, assignor)


def _subscription(member: Any) -> Subscription:
    """A member of JoinGroup's answer whose metadata kafka-python has decoded."""
    metadata = member.metadata
    return Subscription(
        topics=list(metadata.topics),
        owned_partitions=[
            (entry.topic, partition)
            for entry in metadata.owned_partitions or ()
            for partition in entry.partitions
        ],
        generation_id=metadata.generation_id,
        rack_id=metadata.rack_id,
        user_data=None if metadata.user_data is None else bytes(metadata.user_data),
        group_instance_id=member.group_instance_id,
    )
