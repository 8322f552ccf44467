"""Settings under which a group's past is run again, and which of them its record can decide."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pykcoord.config import SETTINGS, Config
from pykcoord.errors import ConfigError
from pykcoord.replaying.script import Script

__all__ = ["STRATEGIES", "Changes", "changes_of", "concern"]

_COORDINATORS = (
    "group.assignment",
    "group.assignment.capacities",
    "group.assignment.groups",
    "group.initial.rebalance.delay.ms",
    "group.quarantine.flaps",
    "group.quarantine.max.ms",
    "group.quarantine.ms",
    "group.quarantine.window.ms",
    "group.rebalance.min.interval.ms",
)
_CONSUMERS = (
    "group.consumer.assignment.interval.ms",
    "group.consumer.assignors",
    "group.consumer.heartbeat.interval.ms",
    "group.consumer.session.timeout.ms",
)
STRATEGIES = ("range", "roundrobin", "sticky", "cooperative-sticky")
"""Assignors of a classic group's leader that are run again."""
_UNDECIDED = {
    "heartbeat.interval.ms": "heartbeats that came in time are not recorded",
    "max.poll.interval.ms": "how long an application took between two polls is not recorded",
    "rebalance.timeout.ms": "how long an application took between two polls is not recorded",
}
_OF_CLIENTS = ("partition.assignment.strategy", "session.timeout.ms", "static.membership")
KEYS = (*_OF_CLIENTS, *_COORDINATORS, *_CONSUMERS)
"""Every setting that can be changed: the clients', then the coordinator's; of these last those that
are of consumer groups."""
_SESSION = "group.consumer.session.timeout.ms"


@dataclass(frozen=True, slots=True)
class Changes:
    """Of the clients: `session_ms`, `strategy` (of the leader), and whether they are `static`;
    None, False: as recorded. Of the coordinator: attributes of `Config`."""

    session_ms: int | None = None
    strategy: str | None = None
    static: bool = False
    coordinator: dict[str, Any] = field(default_factory=dict)


def concern(pairs: Iterable[str], script: Script) -> bool:
    """Whether each of the settings has a part in groups of that protocol."""
    foreign = _foreign(script)
    return not any(pair.partition("=")[0].strip() in foreign for pair in pairs)


def changes_of(pairs: Iterable[str], script: Script, was: Changes | None = None) -> Changes:
    """What `key=value` pairs change. `was`: the settings of that time. Raises ConfigError for one
    that is unknown, that has no such value, or that the record cannot decide, and says why."""
    session_ms, strategy, static = None, None, False
    coordinator: dict[str, str | int | float | bool] = {}
    for pair in pairs:
        key, equals, value = (part.strip() for part in pair.partition("="))
        if not equals or not key:
            raise ConfigError(pair, "write it as key=value")
        if key in _foreign(script):
            kind = "consumer" if script.is_consumer else "classic"
            raise ConfigError(key, f"has no part in a {kind} group, as {script.group_id!r} is one")
        if key in _UNDECIDED:
            raise ConfigError(key, f"the record cannot decide this: {_UNDECIDED[key]}")
        if key == "session.timeout.ms":
            session_ms = _session(value, script)
        elif key == "partition.assignment.strategy":
            if value not in STRATEGIES:
                names = ", ".join(STRATEGIES)
                raise ConfigError(key, f"{value!r} is none of {names}; others are not run again")
            strategy = value
        elif key == "static.membership":
            static = _static(value, script)
        elif key in _COORDINATORS or key in _CONSUMERS:
            coordinator[key] = value
        else:
            known = ", ".join(KEYS)
            why = "has no part in it" if key in SETTINGS else "is not known here"
            raise ConfigError(key, f"{why}; what can be changed: {known}")
    config, _ = Config.of(coordinator)
    if was is not None and _SESSION in coordinator:
        then_ms = was.coordinator.get(
            _attribute(_SESSION), Config().group_consumer_session_timeout_ms
        )
        _check_silence(_SESSION, config.group_consumer_session_timeout_ms, then_ms)
    attributes = [_attribute(key) for key in coordinator]
    values = {name: getattr(config, name) for name in attributes}
    return Changes(session_ms, strategy, static, values)


def _session(value: str, script: Script) -> int:
    key = "session.timeout.ms"
    if not value.isascii() or not value.isdigit() or int(value) < 1:
        raise ConfigError(key, f"{value!r} is not a number of ms, at least 1")
    longest = max((of.traits.session_ms for of in script.processes.values()), default=0)
    _check_silence(key, int(value), longest)
    return int(value)


def _check_silence(key: str, session_ms: int, then_ms: int) -> None:
    if session_ms < then_ms * 3 // 4:
        raise ConfigError(
            key,
            f"the record cannot decide {session_ms}: silences below three quarters of the session "
            f"timeout of that time ({then_ms} ms) are not recorded",
        )


def _foreign(script: Script) -> tuple[str, ...]:
    """Settings of groups of the other protocol alone."""
    if not script.is_consumer:
        return _CONSUMERS
    return ("session.timeout.ms", "partition.assignment.strategy", *_COORDINATORS)


def _attribute(key: str) -> str:
    return key.replace(".", "_")


def _static(value: str, script: Script) -> bool:
    key = "static.membership"
    if value.lower() not in ("true", "false"):
        raise ConfigError(key, f"{value!r} is not true or false")
    twice = next((name for name in script.processes if "#" in name), None)
    if value.lower() == "true" and twice is not None:
        raise ConfigError(
            key,
            f"the record cannot decide this: several clients were {twice.partition(' #')[0]!r} at "
            "the same time, and which of them came back is not recorded",
        )
    return value.lower() == "true"
