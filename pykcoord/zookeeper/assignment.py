"""The assignors of Kafka 0.8: `range` and `roundrobin` over streams, in their exact orders.

They are other rules than those of `pykcoord.assignors`: streams instead of members, Java's order
of texts, Java's hash instead of names. Pure. Source: kafka.consumer.PartitionAssignor;
zookeeper section 6.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import cycle
from typing import Literal

from pykcoord.consumer_protocol import TopicPartition
from pykcoord.zookeeper.errors import StrategyError
from pykcoord.zookeeper.registration import Registration, thread_ids

__all__ = ["Strategy", "assign", "java_hash", "threads_by_topic", "utf16_order"]

Strategy = Literal["range", "roundrobin"]

_Threads = Mapping[str, Collection[str]]
_Partitions = Mapping[str, Sequence[int]]


def utf16_order(text: str) -> bytes:
    """A key that sorts as `String.compareTo`: by UTF-16 units, not by code points."""
    return text.encode("utf-16-be", "surrogatepass")


def java_hash(text: str) -> int:
    """`String.hashCode`: signed, of 32 bits."""
    units = utf16_order(text)
    value = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value - (value >> 31 << 32)


def threads_by_topic(
    members: Mapping[str, Registration],
    topics: Collection[str],
    *,
    exclude_internal_topics: bool = True,
) -> dict[str, list[str]]:
    """Topic to the ids of the streams that want it, in Java's order.

    `members`: consumer id to registration. `topics`: all that there are, which lists pick from.
    """
    found: dict[str, list[str]] = {}
    for consumer_id, registration in members.items():
        streams = registration.streams(topics, exclude_internal_topics=exclude_internal_topics)
        for topic, count in streams.items():
            found.setdefault(topic, []).extend(thread_ids(consumer_id, count))
    return {topic: sorted(threads, key=utf16_order) for topic, threads in found.items()}


def assign(
    strategy: str, threads: Mapping[str, Collection[str]], partitions: Mapping[str, Sequence[int]]
) -> dict[TopicPartition, str]:
    """Who owns what in the whole group: partition to thread id.

    `threads`: of `threads_by_topic`; `partitions`: topic to its partitions, ascending. As in 0.8,
    only the exact word `roundrobin` means the other strategy. Raises StrategyError where
    `roundrobin` refuses the group.
    """
    rule: Callable[[_Threads, _Partitions], dict[TopicPartition, str]]
    rule = _roundrobin if strategy == "roundrobin" else _range
    return rule(threads, partitions)


def _range(threads: _Threads, partitions: _Partitions) -> dict[TopicPartition, str]:
    owners = {}
    for topic, interested in threads.items():
        numbers = partitions.get(topic, ())
        each, more = divmod(len(numbers), len(interested))
        for position, thread in enumerate(sorted(interested, key=utf16_order)):
            begin = position * each + min(position, more)
            for number in numbers[begin : begin + each + (position < more)]:
                owners[TopicPartition(topic, number)] = thread
    return owners


def _roundrobin(threads: _Threads, partitions: _Partitions) -> dict[TopicPartition, str]:
    if not threads:
        return {}
    first_topic, first = next(iter(threads.items()))
    for topic, interested in threads.items():
        if set(interested) != set(first):
            lone = sorted(set(interested) ^ set(first), key=utf16_order)[0]
            raise StrategyError(
                f"roundrobin needs the same streams for all topics of the group: {lone!r} has not "
                f"both {first_topic!r} and {topic!r}"
            )
    dealt = sorted(
        (
            TopicPartition(topic, number)
            for topic in threads
            for number in partitions.get(topic, ())
        ),
        key=lambda one: java_hash(f"[{one.topic},{one.partition}]"),
    )
    return dict(zip(dealt, cycle(sorted(first, key=utf16_order)), strict=False))
