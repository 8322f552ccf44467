"""Kafka's group coordinator as an engine: embedded, as a server, or on Spark.

The names below are loaded on first use, so that `import pykcoord` stays cheap, and so that one
part can be imported without the others. This module holds no code of its own.
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # that of `typing`, which costs more to import than all of this
if TYPE_CHECKING:
    from pykcoord._machine import Finding
    from pykcoord._native import Purgatory, ReplayError, TimingWheel, __version__
    from pykcoord.arrow_shard import ArrowShard
    from pykcoord.assignors import Assignor, Subscription, assign
    from pykcoord.config import Config
    from pykcoord.consumer_protocol import TopicPartition
    from pykcoord.coordinator import Coordinator
    from pykcoord.errors import (
        ArgumentError,
        ConfigError,
        CoordinatorClosedError,
        CorruptLogError,
        JavaAssignorError,
        KafkaError,
        KcoordError,
        ListenerError,
        LogDirectoryLostError,
        LogError,
        LogFencedError,
        LogLockedError,
    )
    from pykcoord.events import Event, EventMember
    from pykcoord.log.protocol import Append
    from pykcoord.member import Member
    from pykcoord.session import Session
    from pykcoord.shard import RefusedFrames, Request, Response, Shard, Step, record_batch

__all__ = [
    "Append",
    "ArgumentError",
    "ArrowShard",
    "Assignor",
    "Config",
    "ConfigError",
    "Coordinator",
    "CoordinatorClosedError",
    "CorruptLogError",
    "Event",
    "EventMember",
    "Finding",
    "JavaAssignorError",
    "KafkaError",
    "KcoordError",
    "ListenerError",
    "LogDirectoryLostError",
    "LogError",
    "LogFencedError",
    "LogLockedError",
    "Member",
    "Purgatory",
    "RefusedFrames",
    "ReplayError",
    "Request",
    "Response",
    "Session",
    "Shard",
    "Step",
    "Subscription",
    "TimingWheel",
    "TopicPartition",
    "__version__",
    "assign",
    "record_batch",
]

_HOMES = {
    "pykcoord._machine": ("Finding",),
    "pykcoord._native": ("Purgatory", "ReplayError", "TimingWheel", "__version__"),
    "pykcoord.arrow_shard": ("ArrowShard",),
    "pykcoord.assignors": ("Assignor", "Subscription", "assign"),
    "pykcoord.config": ("Config",),
    "pykcoord.consumer_protocol": ("TopicPartition",),
    "pykcoord.coordinator": ("Coordinator",),
    "pykcoord.errors": (
        "ArgumentError",
        "ConfigError",
        "CoordinatorClosedError",
        "CorruptLogError",
        "JavaAssignorError",
        "KafkaError",
        "KcoordError",
        "ListenerError",
        "LogDirectoryLostError",
        "LogError",
        "LogFencedError",
        "LogLockedError",
    ),
    "pykcoord.events": ("Event", "EventMember"),
    "pykcoord.log.protocol": ("Append",),
    "pykcoord.member": ("Member",),
    "pykcoord.session": ("Session",),
    "pykcoord.shard": ("RefusedFrames", "Request", "Response", "Shard", "Step", "record_batch"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
