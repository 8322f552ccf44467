"""What goes wrong in groups that coordinate through ZooKeeper. Each message names the path."""

from __future__ import annotations

from pykcoord.errors import KcoordError

__all__ = [
    "BadOffsetError",
    "NoSessionError",
    "PatternError",
    "RebalanceFailedError",
    "RegistrationError",
    "StrategyError",
    "ZooKeeperError",
]


class ZooKeeperError(KcoordError):
    """ZooKeeper refused something, or holds what nobody can use. `path` is the znode."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class RegistrationError(ZooKeeperError):
    """A registration, or the data of a topic, that cannot be read. A rebalance that reads it
    fails, in every member of the group, as in 0.8.2.2."""


class BadOffsetError(ZooKeeperError):
    """An offset that is no whole number from 0 to 2**63 - 1."""


class NoSessionError(ZooKeeperError):
    """No server of the connect string could be reached, or the session is gone. `path` is the
    connect string."""


class RebalanceFailedError(ZooKeeperError):
    """All attempts of a rebalance failed: the member owns nothing. `path` is the group's; the
    reason is that of the last attempt. 0.8.2.2: ConsumerRebalanceFailedException."""


class StrategyError(KcoordError, ValueError):
    """The subscriptions of the group break the rule of `roundrobin`: nobody can rebalance."""


class PatternError(KcoordError, ValueError):
    """No regular expression of Java, or one that is not understood here. `pattern` is the whole,
    `position` where in it."""

    def __init__(self, pattern: str, position: int, reason: str) -> None:
        super().__init__(f"{pattern!r}, character {position}: {reason}")
        self.pattern = pattern
        self.position = position
        self.reason = reason
