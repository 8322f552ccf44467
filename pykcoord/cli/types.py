"""Types of arguments that several commands take."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import click

from pykcoord.catalogue import check_name, check_partitions
from pykcoord.clock import Clock
from pykcoord.errors import ArgumentError

__all__ = ["AddressType", "MomentType", "SpanType", "TopicType"]

_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_AGO = re.compile(r"([0-9]{1,9})([smhd])")


class AddressType(click.ParamType[tuple[str, int]]):
    """HOST:PORT, or [HOST]:PORT for IPv6."""

    name = "HOST:PORT"

    def __init__(self, least_port: int = 0) -> None:
        self._least_port = least_port

    def convert(
        self, value: object, param: click.Parameter | None, context: click.Context | None
    ) -> tuple[str, int]:
        if isinstance(value, tuple):
            return value
        host, _, port = str(value).rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not host or not port.isascii() or not port.isdigit():
            self.fail(f"{value!r} is not HOST:PORT", param, context)
        if not self._least_port <= int(port) <= 65_535:
            self.fail(f"{value!r}: no port from {self._least_port} to 65535", param, context)
        return host, int(port)


class TopicType(click.ParamType[tuple[str, int]]):
    """NAME:PARTITIONS, as name and number of partitions of a valid topic."""

    name = "NAME:PARTITIONS"

    def convert(
        self, value: object, param: click.Parameter | None, context: click.Context | None
    ) -> tuple[str, int]:
        name, _, partitions = str(value).rpartition(":")
        if not name or not partitions.isascii() or not partitions.isdigit():
            self.fail(f"{value!r} is not NAME:PARTITIONS, such as orders:12", param, context)
        try:
            check_name(name)
            check_partitions(int(partitions))
        except ArgumentError as error:
            self.fail(error.reason, param, context)
        return name, int(partitions)


class SpanType(click.ParamType[int]):
    """A length of time (2h), as milliseconds."""

    name = "SPAN"

    def convert(
        self, value: object, param: click.Parameter | None, context: click.Context | None
    ) -> int:
        if isinstance(value, int):
            return value
        if (span := _AGO.fullmatch(str(value))) is None:
            self.fail(f"{value!r} is no length of time; write 90s, 15m, 2h or 7d", param, context)
        return int(span[1]) * _UNITS_MS[span[2]]


class MomentType(click.ParamType[int]):
    """How long ago (2h), or a date or time in ISO 8601, as milliseconds since the epoch."""

    name = "TIME"

    def convert(
        self, value: object, param: click.Parameter | None, context: click.Context | None
    ) -> int:
        if isinstance(value, int):
            return value
        if ago := _AGO.fullmatch(str(value)):
            return Clock().now_ms() - int(ago[1]) * _UNITS_MS[ago[2]]
        try:
            moment = datetime.fromisoformat(str(value))
            if moment.tzinfo is None:
                moment = moment.replace(tzinfo=UTC)
            return round(moment.timestamp() * 1000)
        except (ValueError, OverflowError):
            self.fail(
                f"{value!r} is no time; write how long ago (90s, 15m, 2h, 7d) or ISO 8601 "
                "(2026-11-25T08:30, in UTC)",
                param,
                context,
            )
