"""How an address is written for people."""

from __future__ import annotations

__all__ = ["address_text"]


def address_text(host: str, port: int) -> str:
    """HOST:PORT, or [HOST]:PORT for IPv6."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
