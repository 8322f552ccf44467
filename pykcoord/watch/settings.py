"""What `pykcoord watch` can be told: Kafka's client properties, and these of its own."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from dataclasses import dataclass

from pykcoord.errors import ConfigError
from pykcoord.kafka.client_properties import ClientProperties

__all__ = ["OWN", "WatchSettings"]


@dataclass(frozen=True, slots=True)
class WatchSettings:
    """`client`: how to reach the cluster. The others are the properties that begin with `watch.`:
    `groups` are patterns of ids, separated by commas; in ms `end_offsets_interval_ms`,
    `check_interval_ms` (0: never), `poll_interval_ms`, `sync_interval_ms`; `check_groups` are
    compared each time, and `metrics_groups` groups and `metrics_series`
    partitions and members have series of their own (docs/lag.md)."""

    client: ClientProperties
    groups: str = "*"
    end_offsets_interval_ms: int = 5_000
    check_interval_ms: int = 30_000
    check_groups: int = 10
    poll_interval_ms: int = 10_000
    sync_interval_ms: int = 5_000
    metrics_groups: int = 100
    metrics_series: int = 1_000

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> WatchSettings:
        """From properties, of the client and our own, by their names. Raises ConfigError."""
        values: dict[str, str | int] = {}
        for name, text in properties.items():
            if not name.startswith("watch."):
                continue
            if name not in OWN:
                nearest = difflib.get_close_matches(name, OWN, 1)
                hint = f"; did you mean {nearest[0]}?" if nearest else ""
                raise ConfigError(name, f"unknown name{hint}")
            field, least = OWN[name]
            values[field] = text if field == "groups" else _number(name, text, least)
        client = ClientProperties.of(
            {name: text for name, text in properties.items() if not name.startswith("watch.")}
        )
        return dataclasses.replace(cls(client), **values)  # type: ignore[arg-type]

    @property
    def patterns(self) -> tuple[str, ...]:
        """Those of `groups`."""
        return tuple(one.strip() for one in self.groups.split(",") if one.strip())

    @property
    def oldest_end_ms(self) -> int:
        """An end that is older than this is not known any more."""
        return 3 * self.end_offsets_interval_ms + 1_000


# Name to field and least value.
OWN: dict[str, tuple[str, int]] = {
    "watch.groups": ("groups", 0),
    "watch.end.offsets.interval.ms": ("end_offsets_interval_ms", 100),
    "watch.check.interval.ms": ("check_interval_ms", 0),
    "watch.check.groups": ("check_groups", 1),
    "watch.poll.interval.ms": ("poll_interval_ms", 100),
    "watch.sync.interval.ms": ("sync_interval_ms", 100),
    "watch.metrics.groups": ("metrics_groups", 0),
    "watch.metrics.series": ("metrics_series", 0),
}


def _number(name: str, text: str, least: int) -> int:
    if not text.isascii() or not text.isdigit() or not least <= int(text) < 2**31:
        raise ConfigError(name, f"{text!r} is not a whole number from {least} to 2147483647")
    return int(text)
