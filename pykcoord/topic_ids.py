"""Ids of topics and clusters, made and told as Kafka does."""

from __future__ import annotations

import base64
import secrets
import uuid

__all__ = ["id_text", "new_id", "new_id_text"]

# The number of `-` in URL-safe base64.
_DASH = 62


def new_id() -> uuid.UUID:
    """A topic id whose text does not begin with a dash (as Kafka's Uuid.randomUuid)."""
    while True:
        drawn = secrets.token_bytes(16)
        if drawn[0] >> 2 != _DASH:
            return uuid.UUID(bytes=drawn, version=4)


def new_id_text() -> str:
    """A new id in Kafka's text form: a cluster id."""
    return id_text(new_id())


def id_text(topic_id: uuid.UUID) -> str:
    """URL-safe base64 without padding, as Kafka prints ids."""
    return base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")
