"""Settings under which a group's past is run again, and which of them its record can decide."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pykcoord.config import SETTINGS, Config
from pykcoord.errors import ConfigError
from pykcoord.replaying.script import Script

__all__ = ["Changes", "changes_of"]

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
_STRATEGIES = ("range", "roundrobin", "sticky")
_UNDECIDED = {
    "heartbeat.interval.ms": "heartbeats that came in time are not recorded",
    "max.poll.interval.ms": "how long an application took between two polls is not recorded",
    "rebalance.timeout.ms": "how long an application took between two polls is not recorded",
    "group.consumer.assignment.interval.ms": "only groups of the classic protocol are run again",
}
KEYS = ("partition.assignment.strategy", "session.timeout.ms", "static.membership", *_COORDINATORS)
"""Every setting that can be changed: the clients', then the coordinator's."""


@dataclass(frozen=True, slots=True)
class Changes:
    """Of the clients: `session_ms`, `strategy` (of the leader), and whether they are `static`;
    None, False: as recorded. Of the coordinator: attributes of `Config`."""

    session_ms: int | None = None
    strategy: str | None = None
    static: bool = False
    coordinator: dict[str, Any] = field(default_factory=dict)


def changes_of(pairs: Iterable[str], script: Script) -> Changes:
    """What `key=value` pairs change. Raises ConfigError for one that is unknown, that has no such
    value, or that the record cannot decide, and says why."""
    session_ms, strategy, static = None, None, False
    coordinator: dict[str, str | int | float | bool] = {}
    for pair in pairs:
        key, equals, value = (part.strip() for part in pair.partition("="))
        if not equals or not key:
            raise ConfigError(pair, "write it as key=value")
        if key in _UNDECIDED:
            raise ConfigError(key, f"the record cannot decide this: {_UNDECIDED[key]}")
        if key == "session.timeout.ms":
            session_ms = _session(value, script)
        elif key == "partition.assignment.strategy":
            if value not in _STRATEGIES:
                names = ", ".join(_STRATEGIES)
                raise ConfigError(key, f"{value!r} is none of {names}; others are not run again")
            strategy = value
        elif key == "static.membership":
            static = _static(value, script)
        elif key in _COORDINATORS:
            coordinator[key] = value
        else:
            known = ", ".join(KEYS)
            why = "has no part in it" if key in SETTINGS else "is not known here"
            raise ConfigError(key, f"{why}; what can be changed: {known}")
    config, _ = Config.of(coordinator)
    attributes = [key.replace(".", "_") for key in coordinator]
    values = {name: getattr(config, name) for name in attributes}
    return Changes(session_ms, strategy, static, values)


def _session(value: str, script: Script) -> int:
    key = "session.timeout.ms"
    if not value.isascii() or not value.isdigit() or int(value) < 1:
        raise ConfigError(key, f"{value!r} is not a number of ms, at least 1")
    longest = max((of.traits.session_ms for of in script.processes.values()), default=0)
    if int(value) < longest * 3 // 4:
        raise ConfigError(
            key,
            f"the record cannot decide {value}: silences below three quarters of the session "
            f"timeout of that time ({longest} ms) are not recorded",
        )
    return int(value)


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
