"""The compaction of a log as a `Config` asks for it, with the native cleaner."""

from __future__ import annotations

import secrets

from pykcoord._native import Cleaner
from pykcoord.clock import Clock, monotonic_seconds
from pykcoord.config import Config
from pykcoord.log import Compaction, LogDirectory

__all__ = ["compaction_of", "start_compaction"]

_HASH_KEY_BYTES = 16


def start_compaction(log: LogDirectory, config: Config) -> None:
    """Compacts in the background, unless the configuration says not to."""
    if config.log_cleaner_enable:
        log.start_compaction(compaction_of(config))


def compaction_of(config: Config) -> Compaction:
    """The settings of `LogDirectory.compact`."""
    return Compaction(
        new_cleaner=_new_cleaner,
        now_ms=Clock().now_ms,
        monotonic=monotonic_seconds,
        backoff_ms=config.log_cleaner_backoff_ms,
        dedupe_buffer_bytes=config.log_cleaner_dedupe_buffer_size,
        delete_retention_ms=config.log_cleaner_delete_retention_ms,
        history_retention_ms=config.offsets_history_retention_ms,
        io_max_bytes_per_second=config.log_cleaner_io_max_bytes_per_second,
        min_cleanable_ratio=config.log_cleaner_min_cleanable_ratio,
        min_compaction_lag_ms=config.log_cleaner_min_compaction_lag_ms,
    )


def _new_cleaner(dedupe_buffer_bytes: int, now_ms: int, delete_retention_ms: int) -> Cleaner:
    # Unpredictable, so that no client can choose two group ids that pass for one key.
    hash_key = secrets.token_bytes(_HASH_KEY_BYTES)
    return Cleaner(hash_key, dedupe_buffer_bytes, now_ms, delete_retention_ms)
