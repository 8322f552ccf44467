"""The topics of the cluster, as the metadata log has them, for the engine: names, ids, numbers of
partitions, and the settings of groups. Nothing is changed here: that is the controllers'.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import islice
from typing import Any

from pykcoord.catalogue import NotControllerError, Topic, TopicCatalogue
from pykcoord.clock import thread_seconds
from pykcoord.node.image import GROUP_KIND, TOPIC_KIND, Image

__all__ = ["FollowedTopics", "ImageTopics", "open_topics"]

# So many that have changed are taken at once. A rest of so many times as long as that took the
# processor follows.
_AT_ONCE = 32
_REST = 3.0

# Of a group's settings in Kafka, those that the engine has.
_GROUP_SETTINGS = frozenset(
    {
        "consumer.session.timeout.ms",
        "consumer.heartbeat.interval.ms",
        "consumer.assignment.interval.ms",
    }
)


class ImageTopics:
    """A store of a catalogue that can be read only: all at the start, what changes by
    `FollowedTopics`."""

    def __init__(self, cluster_id: str, image: Image) -> None:
        self._image = image
        self._cluster_id = cluster_id

    def read(self) -> dict[str, Any]:
        """All topics and settings of groups."""
        image = self._image
        groups = {}
        for (kind, name), configs in image.configs.items():
            if kind == GROUP_KIND and (known := _known(configs)):
                groups[name] = known
        return {
            "cluster_id": self._cluster_id,
            "topics": {
                name: {
                    "topic_id": str(topic_id),
                    "partitions": len(image.partitions.get(topic_id, ())),
                    "configs": {},
                }
                for name, topic_id in image.topics.items()
            },
            "group_configs": groups,
        }

    def write(self, document: dict[str, Any]) -> None:
        """Refused: the engine asks for no changes."""
        raise NotControllerError("topics are changed by the cluster's controllers")


class FollowedTopics:
    """Takes what changes in the image into a catalogue that was made of it, some of it in an
    iteration of the loop. `taken(name)` is called, on the loop, with each topic of which anything
    but leaders has changed, and once with each that is there at the beginning."""

    def __init__(
        self, catalogue: TopicCatalogue, image: Image, taken: Callable[[str], None]
    ) -> None:
        self._catalogue = catalogue
        self._image = image
        self._taken = taken
        self._waiting: asyncio.Handle | None = None
        # No more of what was taken is to come before it counts as one change.
        self._is_told = True

    def follow(self, image: Image) -> None:
        """The image has changed, or there is another one. To be called on the loop."""
        if image is not self._image:
            self._image = image
            known = self._catalogue
            image.touched |= dict.fromkeys((TOPIC_KIND, name) for name in known.topics())
            image.touched |= dict.fromkeys((GROUP_KIND, name) for name in known.group_configs())
        if image.touched and self._waiting is None:
            self._take_some()

    def close(self) -> None:
        """Takes nothing more."""
        if self._waiting is not None:
            self._waiting.cancel()

    def _take_some(self) -> None:
        self._waiting = None
        began = thread_seconds()
        image, known, topics, groups = self._image, self._catalogue.topics(), {}, {}
        touched = [*islice(image.touched, _AT_ONCE)]
        for kind, name in touched:
            del image.touched[kind, name]
            if kind == GROUP_KIND:
                groups[name] = _known(image.configs.get((kind, name), {}))
            elif not _is_same(topic := _topic(image, name), known.get(name)):
                topics[name] = topic
        self._is_told = self._is_told and not (topics or groups)
        if not self._is_told:
            self._is_told = not image.touched
            self._catalogue.take(topics, groups, self._is_told)
        for kind, name in touched:
            if kind == TOPIC_KIND:
                self._taken(name)
        if image.touched:
            rest = _REST * (thread_seconds() - began)
            self._waiting = asyncio.get_running_loop().call_later(rest, self._take_some)


def _topic(image: Image, name: str) -> Topic | None:
    topic_id = image.topics.get(name)
    if topic_id is None:
        return None
    return Topic(name, topic_id, len(image.partitions.get(topic_id, ())))


def _is_same(one: Topic | None, other: Topic | None) -> bool:
    if one is None or other is None:
        return one is other
    return (one.topic_id, one.partitions) == (other.topic_id, other.partitions)


def _known(configs: dict[str, str]) -> dict[str, str]:
    return {key: of for key, of in configs.items() if key in _GROUP_SETTINGS}


def open_topics(store: ImageTopics) -> TopicCatalogue:
    """The catalogue of the cluster, as the image has it now."""
    return TopicCatalogue(None, store)
