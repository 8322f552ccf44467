"""Kafka's group coordinator as an engine: embedded, as a server, or on Spark.

The names below are loaded on first use, so that `import pykcoord` stays cheap, and so that one
part can be imported without the others. This module holds no code of its own.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pykcoord._native import Purgatory, TimingWheel
    from pykcoord.assignors import Assignor, Subscription, assign
    from pykcoord.config import Config
    from pykcoord.consumer_protocol import TopicPartition
    from pykcoord.coordinator import Coordinator
    from pykcoord.member import Member
    from pykcoord.shard import Shard

__all__ = [
    "Assignor",
    "Config",
    "Coordinator",
    "Member",
    "Purgatory",
    "Shard",
    "Subscription",
    "TimingWheel",
    "TopicPartition",
    "assign",
]

_HOME = {
    "Assignor": "pykcoord.assignors",
    "Config": "pykcoord.config",
    "Coordinator": "pykcoord.coordinator",
    "Member": "pykcoord.member",
    "Shard": "pykcoord.shard",
    "Subscription": "pykcoord.assignors",
    "TopicPartition": "pykcoord.consumer_protocol",
    "assign": "pykcoord.assignors",
    "Purgatory": "pykcoord._native",
    "TimingWheel": "pykcoord._native",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
