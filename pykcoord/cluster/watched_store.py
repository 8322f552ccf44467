"""The store of a node, watched: what is asked of it is counted, and that it fails is said once."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable
from typing import TypeVar

from pykcoord.clock import monotonic_seconds
from pykcoord.log.shared import Store

__all__ = ["WatchedStore"]

logger = logging.getLogger("pykcoord.cluster")

_Found = TypeVar("_Found")


class WatchedStore:
    """See `pykcoord.log.shared.Store`. `asked` counts the calls by name (create, read, names,
    delete), `failures` those that raised. Where a kind of call fails, the log says so in one line,
    and in another when all answer again. `node_id` is that of the node whose store it is, for those
    lines. For all threads of a process."""

    def __init__(self, store: Store, node_id: int | None = None) -> None:
        self.asked: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self._store = store
        self._named = "the store" if node_id is None else f"the store of node {node_id}"
        self._node_id = node_id
        self._gate = threading.Lock()
        self._failing: set[str] = set()
        self._since = 0.0

    def create(self, name: str, content: bytes) -> bool:
        """See `Store`."""
        return self._watch("create", name, lambda: self._store.create(name, content))

    def read(self, name: str) -> bytes | None:
        """See `Store`."""
        return self._watch("read", name, lambda: self._store.read(name))

    def names(self, folder: str) -> list[str]:
        """See `Store`."""
        return self._watch("names", folder, lambda: self._store.names(folder))

    def delete(self, name: str) -> None:
        """See `Store`."""
        self._watch("delete", name, lambda: self._store.delete(name))

    def _watch(self, kind: str, name: str, call: Callable[[], _Found]) -> _Found:
        try:
            found = call()
        except Exception as error:
            self._failed(kind, name, error)
            raise
        with self._gate:
            self.asked[kind] += 1
            if self._failing:
                self._answered(kind)
        return found

    def _failed(self, kind: str, name: str, error: Exception) -> None:
        with self._gate:
            self.asked[kind] += 1
            self.failures[kind] += 1
            if not self._failing:
                self._since = monotonic_seconds()
                logger.error(
                    "%s fails, no commit is acknowledged until it answers again: %s %s: %s",
                    self._named,
                    kind,
                    name,
                    error,
                    extra={"event": "store_fails", "node": self._node_id, "object": name},
                )
            self._failing.add(kind)

    def _answered(self, kind: str) -> None:
        self._failing.discard(kind)
        if not self._failing:
            seconds = monotonic_seconds() - self._since
            logger.warning(
                "%s answers again, after %.1f s",
                self._named,
                seconds,
                extra={"event": "store_answers", "seconds": round(seconds, 1)},
            )
