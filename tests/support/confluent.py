"""Consumers of confluent-kafka, polled until what a test waits for holds."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from confluent_kafka import Consumer

SECONDS = 60


def poll_until(consumers: Sequence[Consumer], condition: Callable[[], object]) -> None:
    """Polls all of them in turn; any message but none at all is an error."""
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end, [consumer.assignment() for consumer in consumers]
        for consumer in consumers:
            message = consumer.poll(0.05)
            assert message is None, message.error()
