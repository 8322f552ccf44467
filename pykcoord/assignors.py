"""Kafka's partition assignors as functions, and one's own.

`assign` gives the result of the Java class of the same name, list order included, and keeps its
law where the Java class breaks it (docs/assignors-design.md). The work is done by the native core;
this module only names things and must not decide anything.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from pykcoord import _arguments as arguments
from pykcoord import _native
from pykcoord._native import BulkAssignor
from pykcoord.consumer_protocol import TopicPartition
from pykcoord.errors import ArgumentError, JavaAssignorError

__all__ = [
    "STRATEGIES",
    "Assignor",
    "BulkAssignor",
    "Subscription",
    "assign",
    "decode_subscription",
    "encode_assignment",
    "encode_subscription",
    "sticky_user_data",
]

STRATEGIES = ("range", "roundrobin", "sticky", "cooperative-sticky", "uniform", "server-range")

Topics: TypeAlias = Mapping[str, int | Sequence[Sequence[str]]]
Members: TypeAlias = Mapping[str, "Subscription | Sequence[str]"]
Assignment: TypeAlias = dict[str, list[TopicPartition]]


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a member sends to the leader that assigns (ConsumerProtocolSubscription).

    `topics` are the names that it subscribes to. `owned_partitions` and `generation_id` (None or
    below 0: none) are what it held last and since when; "sticky" looks for both in `user_data`
    instead, as Java's class does (see `sticky_user_data`). An empty `rack_id` is none.
    `group_instance_id` is that of a static member; it travels beside the subscription, not in it.
    """

    topics: Sequence[str] = ()
    owned_partitions: Sequence[tuple[str, int]] = ()
    generation_id: int | None = None
    rack_id: str | None = None
    user_data: bytes | None = None
    group_instance_id: str | None = None


class Assignor(abc.ABC):
    """An assignor of one's own.

    `name` is what members agree on in JoinGroup. The methods besides `assign` are for members
    that need them and do nothing here.
    """

    name: str
    shares_partitions: bool = False
    """Whether one partition may go to several members, as of a topic that all of them read."""

    @abc.abstractmethod
    def assign(
        self, topics: Mapping[str, int], members: Mapping[str, Subscription]
    ) -> Mapping[str, Iterable[tuple[str, int]]]:
        """Partitions by member id, of topics that the member subscribes to, each to one member
        (but see `shares_partitions`) and once; a member that is left out gets none.

        `topics`: name to number of partitions, of all topics that have a subscriber and
        that exist. Members come in the order of JoinGroup's answer.
        """

    def user_data(self, topics: Sequence[str]) -> bytes | None:
        """What a member adds to its subscription to `topics` when it joins."""
        return None

    def on_assignment(self, partitions: Sequence[TopicPartition], generation_id: int) -> None:
        """Called in every member with what it was given in that generation."""
        return


def assign(
    strategy: str | Assignor,
    topics: Topics,
    members: Members,
    *,
    compat: Literal["java"] | None = None,
) -> Assignment:
    """Who gets which partitions, as a dict of lists by member id.

    `strategy`: one of `STRATEGIES`, or an assignor of one's own. `topics`: name to number of
    partitions, or to the racks of each partition's replicas. `members`: member id to a list of
    topics or a `Subscription`, in the order of JoinGroup's answer. Topics that do not exist are
    passed over. For the server's strategies, `owned_partitions` is the current target assignment.

    `compat="java"` asks for the Java class's result even where it breaks the class's own law.

    Raises ArgumentError for what cannot be right, and, only with `compat="java"`,
    JavaAssignorError where the Java class throws. Source: spec assignors.md.
    """
    if compat not in (None, "java"):
        raise ArgumentError("compat", f"{compat!r} is neither None nor 'java'")
    for argument, value in (("topics", topics), ("members", members)):
        if not isinstance(value, Mapping):
            raise ArgumentError(argument, f"must be a mapping, not a {type(value).__name__}")
    if isinstance(strategy, Assignor):
        return _assign_by(strategy, topics, members)
    if not isinstance(strategy, str) or strategy not in STRATEGIES:
        names = ", ".join(STRATEGIES)
        raise ArgumentError("strategy", f"{strategy!r} is neither an Assignor nor one of {names}")
    catalogue = topics if type(topics) is dict else dict(topics)
    group = members if type(members) is dict else dict(members)
    try:
        result = _native.assign(strategy, catalogue, group, compat == "java", TopicPartition)
    except UnicodeEncodeError as error:
        raise ArgumentError("topics, members", str(error)) from None
    if isinstance(result, str):
        raise JavaAssignorError(strategy, result)
    return result


def _assign_by(assignor: Assignor, topics: Topics, members: Members) -> Assignment:
    subscriptions = {
        arguments.text("members", member): _subscription(value) for member, value in members.items()
    }
    wanted = {topic for subscription in subscriptions.values() for topic in subscription.topics}
    with arguments.refusing("topics"):
        sizes = {
            arguments.text("topics", topic): (
                partitions if isinstance(partitions, int) else len(partitions)
            )
            for topic, partitions in topics.items()
        }
    counts = {topic: size for topic, size in sizes.items() if topic in wanted and size > 0}
    assignment: Assignment = {member: [] for member in subscriptions}
    given: object = assignor.assign(counts, subscriptions)
    if not isinstance(given, Mapping):
        reason = f"gives a {type(given).__name__}, not a mapping of member ids to partitions"
        raise ArgumentError("strategy", f"{assignor.name} {reason}")
    owners: dict[tuple[str, int], str] = {}
    for member, partitions in given.items():
        if member not in assignment:
            reason = f"gives to {member!r}, which is no member"
            raise ArgumentError("strategy", f"{assignor.name} {reason}")
        for topic, partition in _pairs(assignor, member, partitions):
            if not 0 <= partition < counts.get(topic, 0):
                reason = f"gives {topic}-{partition}, which does not exist or has no subscriber"
                raise ArgumentError("strategy", f"{assignor.name} {reason}")
            if topic not in subscriptions[member].topics:
                reason = f"gives {topic}-{partition} to {member!r}, which does not subscribe to it"
                raise ArgumentError("strategy", f"{assignor.name} {reason}")
            owner = owners.setdefault((topic, partition), member)
            if owner != member and not assignor.shares_partitions:
                reason = f"gives {topic}-{partition} to {owner!r} and to {member!r}"
                advice = "set `shares_partitions` if that is meant"
                raise ArgumentError("strategy", f"{assignor.name} {reason}; {advice}")
            assignment[member].append(TopicPartition(topic, partition))
        if len(set(assignment[member])) < len(assignment[member]):
            reason = f"gives {member!r} a partition twice: {assignment[member]}"
            raise ArgumentError("strategy", f"{assignor.name} {reason}")
    return assignment


def _subscription(value: Subscription | Sequence[str]) -> Subscription:
    subscription = value if isinstance(value, Subscription) else Subscription(value)
    if isinstance(subscription.topics, str | bytes):
        raise ArgumentError("members", f"a list of topics, not one: {subscription.topics!r}")
    with arguments.refusing("members"):
        for topic in subscription.topics:
            arguments.text("members", topic)
    return subscription


def _pairs(assignor: Assignor, member: str, partitions: object) -> list[tuple[str, int]]:
    reason = f"{assignor.name} gives {member!r} {partitions!r}, not a list of (topic, partition)"
    try:
        pairs = [(topic, partition) for topic, partition in partitions]  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise ArgumentError("strategy", reason) from None
    if not all(isinstance(topic, str) and isinstance(number, int) for topic, number in pairs):
        raise ArgumentError("strategy", reason)
    return pairs


def decode_subscription(metadata: bytes, group_instance_id: str | None = None) -> Subscription:
    """A member's subscription from the bytes of JoinGroup, v0 to v3; newer ones are read as v3.

    Raises ArgumentError for bytes that are none.
    """
    with arguments.refusing("metadata"):
        decoded = _native.decode_subscription(metadata)
    if decoded is None:
        raise ArgumentError("metadata", "not a subscription of the consumer protocol")
    _version, topics, user_data, owned, generation_id, rack_id = decoded
    return Subscription(
        topics=topics,
        owned_partitions=[
            TopicPartition(topic, number) for topic, numbers in owned for number in numbers
        ],
        generation_id=generation_id if generation_id >= 0 else None,
        rack_id=rack_id or None,
        user_data=user_data,
        group_instance_id=group_instance_id,
    )


def encode_subscription(subscription: Subscription, version: int = 3) -> bytes:
    """The bytes of a subscription for JoinGroup, byte for byte as Java clients write them.

    `version`: 0 to 3; what a version does not know is left out. Raises ArgumentError for others.
    """
    _check_version(version)
    if not isinstance(subscription, Subscription):
        raise ArgumentError("subscription", f"{subscription!r} is no Subscription")
    generation_id, rack_id = subscription.generation_id, subscription.rack_id
    with arguments.refusing("subscription"):
        return _native.encode_subscription(
            version,
            [arguments.text("subscription", topic) for topic in subscription.topics],
            subscription.user_data,
            # What clients claim may be any number; assignors look at it.
            _by_topic("subscription", subscription.owned_partitions, range(-(2**31), 2**31)),
            -1 if generation_id is None else generation_id,
            None if rack_id is None else arguments.text("subscription", rack_id),
        )


def encode_assignment(
    partitions: Iterable[tuple[str, int]], user_data: bytes | None = None, version: int = 3
) -> bytes:
    """The bytes of an assignment for SyncGroup: topics in order of first appearance, partitions in
    order, as a Java leader writes what its assignor returned. `version`: 0 to 3."""
    _check_version(version)
    by_topic = _by_topic("partitions", partitions)
    with arguments.refusing("user_data"):
        return _native.encode_assignment(version, by_topic, user_data)


def sticky_user_data(
    partitions: Iterable[tuple[str, int]], generation_id: int | None = None
) -> bytes:
    """What a member of Java's `StickyAssignor` puts into its user data after an assignment: v1, or
    v0 without a generation."""
    pairs = arguments.partitions("partitions", partitions)
    with arguments.refusing("generation_id"):
        return _native.sticky_user_data(pairs, generation_id)


def _by_topic(
    argument: str, partitions: Iterable[tuple[str, int]], allowed: range = range(2**31)
) -> list[tuple[str, list[int]]]:
    by_topic: dict[str, list[int]] = {}
    for topic, number in arguments.partitions(argument, partitions, allowed):
        by_topic.setdefault(topic, []).append(number)
    return list(by_topic.items())


def _check_version(version: int) -> None:
    arguments.integer("version", version, range(4))
