"""Snapshots of the shards that this host leads, written beside the work: a claim reads less.

A thread of its own reads what is durable of the log, as any reader may, and writes its state down.
Nothing depends on a snapshot being made; a failure is told, and the next one is tried in time.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pykcoord._native import Node
from pykcoord_spark.hosting.reading import load_into
from pykcoord_spark.shard_log import ShardLog, Store

__all__ = ["ShardSnapshots"]

logger = logging.getLogger("pykcoord.hosting")


class ShardSnapshots:
    """A snapshot after every `every_chunks` chunks of a shard; `config` is the native one."""

    def __init__(self, store: Store, config: Mapping[str, Any], every_chunks: int) -> None:
        self._store = store
        self._config = dict(config)
        self._every_chunks = every_chunks
        self._gate = threading.Lock()
        self._chunks: dict[int, int] = {}
        self._to_prune: set[int] = set()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="pykcoord-snapshot")
        self._closed = False

    def chunk_was_put(self, shard: int, log: ShardLog) -> None:
        """Count a chunk. On the thread that writes the shard's log."""
        with self._gate:
            self._chunks[shard] = self._chunks.get(shard, 0) + 1
            due = self._chunks[shard] >= self._every_chunks and not self._closed
            if due:
                self._chunks[shard] = 0
                self._thread.submit(self._write, shard)
            prune = shard in self._to_prune
            self._to_prune.discard(shard)
        if prune:
            self._told(f"the log of shard {shard} cannot be pruned", log.prune)

    def close(self) -> None:
        """Write no more; what is being written is waited for."""
        with self._gate:
            self._closed = True
        self._thread.shutdown(cancel_futures=True)

    def _write(self, shard: int) -> None:
        self._told(f"no snapshot of shard {shard}", lambda: self._snapshot(shard))

    def _snapshot(self, shard: int) -> None:
        replica = Node(self._config, 1, os.urandom(32)).replica()
        log = ShardLog(self._store, shard)
        load_into(log, replica)
        log.snapshot(b"".join(iter(replica.snapshot_chunk, None)))
        with self._gate:
            self._to_prune.add(shard)

    def _told(self, text: str, call: Any) -> None:
        try:
            call()
        except Exception as error:
            logger.error("%s: %s", text, error)
