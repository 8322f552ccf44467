"""The topics of a hosted cluster, the same for all its hosts: a version for each change.

    <log>/registry/topics/000000000002   all topics after the second change

A change is made by putting the next version; a host that finds it there already has lost, and
reads.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pykcoord.catalogue import TopicCatalogue
from pykcoord.log.shared import Store

__all__ = ["SharedTopics", "TopicsConflictError", "open_topics"]

_TOPICS = "registry/topics"
_KEPT = 2


def open_topics(store: SharedTopics, topics: Mapping[str, int] | None = None) -> TopicCatalogue:
    """The catalogue that all hosts share, with at least `topics` (name to number of partitions).

    Raises ArgumentError for a topic that cannot be, and what the store raises.
    """
    while True:
        try:
            return TopicCatalogue(topics, store)
        except TopicsConflictError:
            continue  # another host began it; there is a next version to read


class TopicsConflictError(OSError):
    """Another host changed the topics first: ask again."""

    def __init__(self, version: int) -> None:
        super().__init__(f"version {version} of the topics was made by another host; ask again")


class SharedTopics:
    """Where a `pykcoord.catalogue.TopicCatalogue` is remembered. Raises what the store raises."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.version = 0
        """Of what was read or written last; 0: there was nothing."""

    def newest(self) -> int:
        """The version that is in the store."""
        return max(map(int, self._store.names(_TOPICS)), default=0)

    def read(self) -> dict[str, Any] | None:
        """All topics; None before there are any."""
        while (version := self.newest()) > 0:
            content = self._store.read(_name(version))
            if content is not None:
                self.version = version
                document: dict[str, Any] = json.loads(content)
                return document
        return None

    def write(self, document: dict[str, Any]) -> None:
        """The next version. Raises TopicsConflictError if what was read is not the newest."""
        version = self.version + 1
        if not self._store.create(_name(version), json.dumps(document).encode()):
            raise TopicsConflictError(version)
        self.version = version
        for old in map(int, self._store.names(_TOPICS)):
            if old <= version - _KEPT:
                self._store.delete(_name(old))


def _name(version: int) -> str:
    return f"{_TOPICS}/{version:012}"
