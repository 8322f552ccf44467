"""The topics of the cluster, as the metadata log has them, for the engine: names, ids, numbers of
partitions, and the settings of groups. Nothing is changed here: that is the controllers'.
"""

from __future__ import annotations

from typing import Any

from pykcoord.catalogue import NotControllerError, TopicCatalogue
from pykcoord.node.image import GROUP_KIND, Image

__all__ = ["ImageTopics", "open_topics"]

# Of a group's settings in Kafka, those that the engine has.
_GROUP_SETTINGS = frozenset(
    {
        "consumer.session.timeout.ms",
        "consumer.heartbeat.interval.ms",
        "consumer.assignment.interval.ms",
    }
)


class ImageTopics:
    """A store of a catalogue that can be read only. `image` is replaced by its owner."""

    def __init__(self, cluster_id: str, image: Image) -> None:
        self.image = image
        self._cluster_id = cluster_id

    def read(self) -> dict[str, Any]:
        """All topics and settings of groups."""
        image = self.image
        groups = {}
        for (kind, name), configs in image.configs.items():
            known = {key: of for key, of in configs.items() if key in _GROUP_SETTINGS}
            if kind == GROUP_KIND and known:
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


def open_topics(store: ImageTopics) -> TopicCatalogue:
    """The catalogue of the cluster; `TopicCatalogue.reload` takes what the image says then."""
    return TopicCatalogue(None, store)
