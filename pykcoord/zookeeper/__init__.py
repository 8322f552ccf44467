"""Scheme 1: groups that coordinate themselves through ZooKeeper, as Kafka 0.8.2.2 did.

`ZooKeeperMember` is a member of such a group, beside the real old consumer or alone
(`pip install pykcoord[zookeeper]`). The rest is pure and needs no server: what stands in the
znodes, which topics a list allows, and who owns what. docs/zookeeper.md
"""

from __future__ import annotations

import importlib

from pykcoord.errors import MissingExtraError
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

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pykcoord.zookeeper.member import Counts, ZooKeeperMember

__all__ = [
    "BadOffsetError",
    "Counts",
    "NoSessionError",
    "PatternError",
    "RebalanceFailedError",
    "Registration",
    "RegistrationError",
    "Strategy",
    "StrategyError",
    "TopicFilter",
    "ZooKeeperError",
    "ZooKeeperMember",
    "assign",
    "java_hash",
    "offset_of",
    "partitions_of",
    "threads_by_topic",
    "utf16_order",
]


def __getattr__(name: str) -> object:
    """What needs kazoo is imported when it is asked for."""
    if name not in ("Counts", "ZooKeeperMember"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        member = importlib.import_module("pykcoord.zookeeper.member")
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "kazoo":
            raise
        reason = f"{name} needs kazoo: pip install 'pykcoord[zookeeper]'"
        raise MissingExtraError(reason, name="kazoo") from None
    value: object = getattr(member, name)
    return value
