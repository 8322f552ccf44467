"""Values as JSON and people can read them."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import Any


def counted(count: int, noun: str) -> str:
    """ "1 file", "2 files", "0 batches"."""
    ending = "" if count == 1 else "es" if noun.endswith("ch") else "s"
    return f"{count} {noun}{ending}"


def base64_of(data: bytes | None) -> str | None:
    """Base64, or None for None."""
    return None if data is None else base64.b64encode(data).decode()


def plain(value: Any) -> Any:
    """The same value with its bytes in base64, however deep."""
    if isinstance(value, bytes):
        return base64_of(value)
    if isinstance(value, dict):
        return {name: plain(field) for name, field in value.items()}
    if isinstance(value, list):
        return [plain(element) for element in value]
    return value


def time_text(timestamp_ms: int) -> str:
    """A time in ms since the epoch in ISO 8601; the number where the calendar does not have it."""
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
