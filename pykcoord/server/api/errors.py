"""Which of Kafka's errors a refusal of the catalogue is."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from kio.schema.errors import ErrorCode

from pykcoord.catalogue import (
    Catalogue,
    InvalidPartitionsError,
    InvalidTopicError,
    TopicExistsError,
    UnknownTopicError,
)
from pykcoord.errors import KcoordError
from pykcoord.server.api.messages import NONE, Fields

logger = logging.getLogger("pykcoord.server")

_CODES: tuple[tuple[type[Exception], ErrorCode], ...] = (
    (TopicExistsError, ErrorCode.topic_already_exists),
    (UnknownTopicError, ErrorCode.unknown_topic_or_partition),
    (InvalidTopicError, ErrorCode.invalid_topic_exception),
    (InvalidPartitionsError, ErrorCode.invalid_partitions),
)


def error_of(error: Exception) -> tuple[ErrorCode, str]:
    """Kafka's code and a text. What the catalogue could not store is KAFKA_STORAGE_ERROR; an
    error of no known kind is logged and UNKNOWN_SERVER_ERROR."""
    for kind, code in _CODES:
        if isinstance(error, kind):
            return code, getattr(error, "reason", str(error))
    if isinstance(error, OSError):
        logger.error("the catalogue cannot be stored: %s", error, extra={"event": "catalogue"})
        return ErrorCode.kafka_storage_error, f"the catalogue cannot be stored: {error.strerror}"
    logger.error("the catalogue failed", exc_info=error, extra={"event": "catalogue"})
    return ErrorCode.unknown_server_error, "the catalogue failed"


def stored_together(
    catalogue: Catalogue,
    results: Iterable[Fields],
    refused: Callable[[Fields, ErrorCode, str], Fields],
) -> list[Fields]:
    """The results of changes that are made while `results` is consumed, stored once for all.

    Where that fails none was made: `refused(result, code, text)` replaces those without an error.
    """
    made: list[Fields] = []
    try:
        with catalogue.together():
            made.extend(results)
    except (OSError, KcoordError) as error:
        code, text = error_of(error)
        return [refused(of, code, text) if of["error_code"] is NONE else of for of in made]
    return made
