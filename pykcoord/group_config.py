"""Settings of single consumer groups, over the server's own: Kafka's GROUP resources.

Names, ranges and errors are those of Kafka 4.4.0's `GroupConfig`; what only share and streams
groups have is not known here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pykcoord._setting import java_integer
from pykcoord.config import SETTINGS
from pykcoord.errors import ArgumentError

__all__ = [
    "ASSIGNMENT_INTERVAL",
    "GROUP_SETTINGS",
    "HEARTBEAT_INTERVAL",
    "SESSION_TIMEOUT",
    "GroupSetting",
    "check_group_configs",
    "group_defaults",
    "native_group_configs",
]

SESSION_TIMEOUT = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL = "consumer.heartbeat.interval.ms"
ASSIGNMENT_INTERVAL = "consumer.assignment.interval.ms"
_INT = range(-(2**31), 2**31)


class GroupSetting(NamedTuple):
    """One setting: all are integers, in milliseconds. `broker_name`: the server's own, which
    holds where a group has none. `minimum` and `maximum` name the server's bounds of it;
    `least` is what Kafka's definition has for any server."""

    name: str
    broker_name: str
    minimum: str
    maximum: str
    least: int

    @property
    def doc(self) -> str:
        """One sentence."""
        return SETTINGS[self.broker_name].doc

    @property
    def default(self) -> str:
        """The server's own default."""
        return str(SETTINGS[self.broker_name].default)


def _setting(name: str, least: int) -> GroupSetting:
    rest = name.removeprefix("consumer.")
    minimum, maximum = f"group.consumer.min.{rest}", f"group.consumer.max.{rest}"
    return GroupSetting(name, f"group.{name}", minimum, maximum, least)


GROUP_SETTINGS: Mapping[str, GroupSetting] = {
    name: _setting(name, least)
    for name, least in ((SESSION_TIMEOUT, 1), (HEARTBEAT_INTERVAL, 1), (ASSIGNMENT_INTERVAL, 0))
}
"""By name."""


def group_defaults(broker_configs: Mapping[str, str]) -> dict[str, str]:
    """What holds for a group without settings: the server's, by the names of a group's."""
    return {
        name: broker_configs.get(of.broker_name, of.default) for name, of in GROUP_SETTINGS.items()
    }


def check_group_configs(configs: Mapping[str, str], broker_configs: Mapping[str, str]) -> None:
    """Raises ArgumentError, with Kafka's text as its reason, for settings that a group of this
    server cannot have. `broker_configs`: the server's, by Kafka's names."""
    numbers = {name: _number(name, value) for name, value in configs.items()}
    for name, number in numbers.items():
        of = GROUP_SETTINGS[name]
        least, most = (
            int(broker_configs.get(bound, SETTINGS[bound].default))
            for bound in (of.minimum, of.maximum)
        )
        if not least <= number <= most:
            reason = f"{name} must be in the range {least} to {most} inclusive."
            raise ArgumentError(name, reason)
    if SESSION_TIMEOUT in numbers or HEARTBEAT_INTERVAL in numbers:
        defaults = group_defaults(broker_configs)
        session, heartbeat = (
            numbers.get(name, int(defaults[name])) for name in (SESSION_TIMEOUT, HEARTBEAT_INTERVAL)
        )
        if session <= heartbeat:
            reason = f"{SESSION_TIMEOUT} must be greater than {HEARTBEAT_INTERVAL}"
            raise ArgumentError(SESSION_TIMEOUT, reason)


def native_group_configs(
    configs: Mapping[str, Mapping[str, str]],
) -> list[tuple[str, int | None, int | None, int | None]]:
    """What is set for groups, by their ids, as `_native.Node.set_group_configs` takes it."""
    rows = []
    for group_id, own in configs.items():
        session, heartbeat, assignment = (
            int(own[name]) if name in own else None
            for name in (SESSION_TIMEOUT, HEARTBEAT_INTERVAL, ASSIGNMENT_INTERVAL)
        )
        rows.append((group_id, session, heartbeat, assignment))
    return rows


def _number(name: str, value: str) -> int:
    known = GROUP_SETTINGS.get(name)
    if known is None:
        raise ArgumentError(name, f"Unknown group config name: {name}")
    number = java_integer(value)
    if number is None or number not in _INT:
        reason = f"Invalid value {value} for configuration {name}: Not a number of type INT"
        raise ArgumentError(name, reason)
    if number < known.least:
        reason = (
            f"Invalid value {value.strip()} for configuration {name}: "
            f"Value must be at least {known.least}"
        )
        raise ArgumentError(name, reason)
    return number
