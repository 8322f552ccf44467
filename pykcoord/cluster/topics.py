"""The topics of a cluster, the same for all its nodes: a version for each change.

    <log>/registry/topics/000000000002   all topics after the second change

A change is made by putting the next version; a node that finds it there already reads it, and makes
its change on top.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from pykcoord.catalogue import TopicCatalogue
from pykcoord.log.shared import Store
from pykcoord.log.state_file import text_of_parts
from pykcoord.storing import StoreConflictError

__all__ = ["SharedTopics", "TopicsConflictError", "open_topics"]

_TOPICS = "registry/topics"
_KEPT = 2


def open_topics(store: SharedTopics, topics: Mapping[str, int] | None = None) -> TopicCatalogue:
    """The catalogue that all nodes share, with at least `topics` (name to number of partitions).

    Raises ArgumentError for a topic that cannot be, and what the store raises.
    """
    while True:
        try:
            return TopicCatalogue(topics, store)
        except TopicsConflictError:
            continue  # another node began it; there is a next version to read


class TopicsConflictError(StoreConflictError):
    """Another node changed the topics first: ask again."""

    def __init__(self, version: int) -> None:
        super().__init__(f"version {version} of the topics was made by another node; ask again")


class SharedTopics:
    """Where a `pykcoord.catalogue.TopicCatalogue` is remembered. Raises what the store raises."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.version = 0
        """Of what was read or written last; 0: there was nothing."""

    def newest(self) -> int:
        """The version that is in the store, as far as that lists it."""
        return max(map(int, self._store.names(_TOPICS)), default=0)

    def read(self) -> dict[str, Any] | None:
        """All topics; None before there are any."""
        content = self.as_written()
        document: dict[str, Any] | None = json.loads(content) if content is not None else None
        return document

    def as_written(self) -> bytes | None:
        """The same as they stand in the store."""
        while True:
            listed, found = self.newest(), b""
            version = max(listed, self.version, 1)
            # Also those that came later, or are not listed yet.
            while (content := self._store.read(_name(version))) is not None:
                version, found = version + 1, content
            if found:
                self.version = version - 1
                return found
            if max(listed, self.version) == 0:
                return None

    def write(self, document: dict[str, Any]) -> None:
        """The next version. Raises TopicsConflictError if what was read is not the newest."""
        self._write(json.dumps(document))

    def write_parts(self, document: dict[str, Any], objects: Mapping[str, Iterable[str]]) -> None:
        """The same with more objects, of members that are encoded already."""
        self._write(text_of_parts(document, objects))

    def _write(self, text: str) -> None:
        version = self.version + 1
        if not self._store.create(_name(version), text.encode()):
            raise TopicsConflictError(version)
        self.version = version
        for old in map(int, self._store.names(_TOPICS)):
            if old <= version - _KEPT:
                self._store.delete(_name(old))


def _name(version: int) -> str:
    return f"{_TOPICS}/{version:012}"
