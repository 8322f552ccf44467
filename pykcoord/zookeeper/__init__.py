"""Scheme 1: groups that coordinate themselves through ZooKeeper, as Kafka 0.8.2.2 did.

`ZooKeeperMember` is a member of such a group, beside the real old consumer or alone
(`pip install pykcoord[zookeeper]`). The rest is pure and needs no server: what stands in the
znodes, which topics a list allows, and who owns what. docs/zookeeper.md
"""

from __future__ import annotations

from pykcoord.zookeeper.assignment import Strategy, assign, java_hash, threads_by_topic, utf16_order
from pykcoord.zookeeper.errors import (
    BadOffsetError,
    NoSessionError,
    PatternError,
    RebalanceFailedError,
    RegistrationError,
    StrategyError,
    ZooKeeperError,
)
from pykcoord.zookeeper.registration import Registration, TopicFilter, offset_of, partitions_of

__all__ = [
    "BadOffsetError",
    "NoSessionError",
    "PatternError",
    "RebalanceFailedError",
    "Registration",
    "RegistrationError",
    "Strategy",
    "StrategyError",
    "TopicFilter",
    "ZooKeeperError",
    "assign",
    "java_hash",
    "offset_of",
    "partitions_of",
    "threads_by_topic",
    "utf16_order",
]
