"""A registry as text, for Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

__all__ = ["exposed"]


def exposed(registry: CollectorRegistry, accept: str) -> tuple[bytes, str]:
    """All metrics and their content type, in the form that `accept` prefers."""
    encode, kind = choose_encoder(accept)
    return encode(registry), kind
