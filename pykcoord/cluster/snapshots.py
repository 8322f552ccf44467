"""Snapshots of the shards that this host leads, written beside the work: a claim reads less.

A thread of its own reads what is durable of the log, as any reader may, and writes its state down.
Nothing depends on a snapshot; a failure is logged, and the next one is tried when it is due.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pykcoord._native import Node
from pykcoord.cluster.reading import load_into
from pykcoord.log.shared import ShardLog, Store

__all__ = ["ShardSnapshots"]

logger = logging.getLogger("pykcoord.cluster")


class ShardSnapshots:
    """A snapshot after every `every_entries` entries of a shard; `config` is the native one."""

    def __init__(self, store: Store, config: Mapping[str, Any], every_entries: int) -> None:
        self._store = store
        self._config = dict(config)
        self._every_entries = every_entries
        self._gate = threading.Lock()
        self._entries: dict[int, int] = {}
        self._to_prune: set[int] = set()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="pykcoord-snapshot")
        self._closed = False

    def entry_was_put(self, shard: int, log: ShardLog) -> None:
        """Count an entry. On the thread that writes the shard's log."""
        with self._gate:
            self._entries[shard] = self._entries.get(shard, 0) + 1
            due = self._entries[shard] >= self._every_entries and not self._closed
            if due:
                self._entries[shard] = 0
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
        loader = Node(self._config, 1, os.urandom(32)).loader()
        log = ShardLog(self._store, shard)
        load_into(log, loader)
        log.snapshot(b"".join(iter(loader.snapshot_chunk, None)))
        with self._gate:
            self._to_prune.add(shard)

    def _told(self, text: str, call: Any) -> None:
        try:
            call()
        except Exception as error:
            logger.error("%s: %s", text, error)
