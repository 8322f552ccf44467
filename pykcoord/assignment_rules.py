"""What `group.assignment.*` say: which groups the coordinator assigns itself, and how.

Pure text to rules, checked; nothing here knows a group. Patterns are globs over the whole name:
`*` is any characters, `?` one. The first that matches wins.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pykcoord.errors import ConfigError

STRATEGIES = (
    "range",
    "roundrobin",
    "sticky",
    "cooperative-sticky",
    "uniform",
    "server-range",
    "weighted",
    "lag-aware",
)
"""What the coordinator can assign by: Kafka's assignors, and two that need what it alone knows."""

MAX_CAPACITY = 1_000_000


def groups(name: str, text: str) -> list[tuple[str, str]]:
    """Pattern and strategy of each rule of `PATTERN:STRATEGY,...`. `name`: of the setting, for
    the ConfigError that names what cannot be right."""
    rules = list(_rules(name, text, "PATTERN:STRATEGY, such as billing-*:sticky"))
    for rule, _, strategy in rules:
        if strategy not in STRATEGIES:
            known = ", ".join(STRATEGIES)
            raise ConfigError(name, f"{rule!r}: {strategy!r} is no strategy; there are {known}")
    return [(pattern, strategy) for _, pattern, strategy in rules]


def capacities(name: str, text: str) -> list[tuple[str, int]]:
    """Pattern and capacity of each rule of `PATTERN:CAPACITY,...`, as `groups`."""
    rules = list(_rules(name, text, "PATTERN:CAPACITY, such as big-*:4"))
    for rule, _, capacity in rules:
        number = int(capacity) if capacity.isascii() and capacity.isdigit() else 0
        if not 1 <= number <= MAX_CAPACITY:
            reason = f"{rule!r}: {capacity!r} is no capacity from 1 to {MAX_CAPACITY}"
            raise ConfigError(name, reason)
    return [(pattern, int(capacity)) for _, pattern, capacity in rules]


def native(chosen: str, groups_text: str, capacities_text: str) -> tuple[list[Any], list[Any]]:
    """The rules as the native core takes them: none of groups where clients assign. Capacities are
    for consumer groups, too, which the coordinator always assigns."""
    of_groups = groups("group.assignment.groups", groups_text) if chosen == "coordinator" else []
    return of_groups, capacities("group.assignment.capacities", capacities_text)


def _rules(name: str, text: str, form: str) -> Iterator[tuple[str, str, str]]:
    """Each rule as it stands, and its two halves: a group id may have colons, the rest has not."""
    for part in text.split(","):
        rule = part.strip()
        if not rule and not text.strip():
            return
        pattern, colon, value = rule.rpartition(":")
        if not colon or not pattern or not value:
            raise ConfigError(name, f"{rule!r} is not {form}")
        yield rule, pattern, value
