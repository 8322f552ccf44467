"""Which of Kafka's errors a refusal of the catalogue is."""

from __future__ import annotations

import logging

from kio.schema.errors import ErrorCode

from pykcoord.catalogue import (
    InvalidPartitionsError,
    InvalidTopicError,
    NotControllerError,
    TooManyConfigsError,
    TooManyTopicsError,
    TopicExistsError,
    UnknownTopicError,
)
from pykcoord.errors import LogError
from pykcoord.storing import StoreConflictError

logger = logging.getLogger("pykcoord.server")

_CODES: tuple[tuple[type[Exception], ErrorCode], ...] = (
    (TopicExistsError, ErrorCode.topic_already_exists),
    (UnknownTopicError, ErrorCode.unknown_topic_or_partition),
    (InvalidTopicError, ErrorCode.invalid_topic_exception),
    (InvalidPartitionsError, ErrorCode.invalid_partitions),
    (NotControllerError, ErrorCode.not_controller),
    (StoreConflictError, ErrorCode.not_controller),  # ask again
    (TooManyConfigsError, ErrorCode.policy_violation),
    (TooManyTopicsError, ErrorCode.policy_violation),
)


def error_of(error: Exception) -> tuple[ErrorCode, str]:
    """Kafka's code and a text. What the catalogue could not store is KAFKA_STORAGE_ERROR; an
    error of no known kind is logged and UNKNOWN_SERVER_ERROR."""
    for kind, code in _CODES:
        if isinstance(error, kind):
            return code, getattr(error, "reason", str(error))
    if isinstance(error, OSError | LogError):
        logger.error("the catalogue cannot be stored: %s", error, extra={"event": "catalogue"})
        reason = "its directory is gone"
        if isinstance(error, OSError):
            reason = error.strerror or str(error)
        return ErrorCode.kafka_storage_error, f"the catalogue cannot be stored: {reason}"
    logger.error("the catalogue failed", exc_info=error, extra={"event": "catalogue"})
    return ErrorCode.unknown_server_error, "the catalogue failed"
