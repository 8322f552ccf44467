"""Values as JSON can carry them."""

from __future__ import annotations

import base64
from typing import Any


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
