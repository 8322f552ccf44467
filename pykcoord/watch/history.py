"""Whether a directory's copy can be continued, and what to do where it cannot: what is there stays,
set aside, and another copy begins. Never continues a copy that may lack what the cluster deleted.
"""

from __future__ import annotations

import logging
import uuid

from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.static.primitive import i8

from pykcoord.clock import Clock
from pykcoord.errors import LogError
from pykcoord.kafka.cluster import Cluster
from pykcoord.kafka.errors import ClusterError
from pykcoord.log.copied_directory import CopiedDirectory, Origin
from pykcoord.watch.following import TOPIC

__all__ = ["checked_origin"]

logger = logging.getLogger("pykcoord.watch")

_TOPIC_RESOURCE = 2
_SETTING = "delete.retention.ms"
_DEFAULT_RETENTION_MS = 86_400_000
# Of that time: a copy that is nearly as old is not continued either.
_PART = 0.9


async def checked_origin(directory: CopiedDirectory, cluster: Cluster, topic_id: uuid.UUID) -> None:
    """Makes the directory a copy of this topic, or leaves it one. Raises LogError for a topic that
    has fewer partitions than it had, OSError."""
    partitions = len(cluster.view.topics[TOPIC].leaders)
    fresh = Origin(cluster.view.cluster_id, topic_id.bytes, partitions, Clock().now_ms())
    known = directory.origin
    if known is None:
        directory.begin(fresh)
        return
    if known.topic_id == topic_id.bytes and partitions < known.partitions:
        raise LogError(
            f"{directory.path}: a copy of {known.partitions} partitions of {TOPIC}, and cluster "
            f"{known.cluster_id} tells of {partitions}; nothing was changed: look at "
            f"`kafka-topics --describe --topic {TOPIC}` there"
        )
    reason = None
    if known.topic_id != topic_id.bytes:
        reason = f"{TOPIC} was deleted and made again since"
    else:
        retention_ms = await _tombstone_retention_ms(cluster)
        away_ms = fresh.followed_ms - known.followed_ms
        if away_ms > retention_ms * _PART:
            reason = (
                f"it was followed {away_ms // 1000} s ago, and the cluster keeps what says that "
                f"something was deleted for {retention_ms // 1000} s ({_SETTING})"
            )
    if reason is not None:
        aside = directory.set_aside(fresh.followed_ms)
        logger.warning(
            "the copy in %s cannot be continued: %s; it is kept in %s, and another one begins",
            directory.path,
            reason,
            aside,
            extra={"event": "set_aside"},
        )
    elif partitions == known.partitions:
        return
    directory.begin(fresh)


async def _tombstone_retention_ms(cluster: Cluster) -> int:
    """`delete.retention.ms` of the topic; Kafka's default where it may not be asked for."""
    resource = DescribeConfigsResource(
        resource_type=i8(_TOPIC_RESOURCE), resource_name=TOPIC, configuration_keys=(_SETTING,)
    )
    try:
        request = DescribeConfigsRequest(resources=(resource,))
        answer = await cluster.ask(min(cluster.view.brokers), request)
        for result in answer.results:
            for config in result.configs:
                if config.name == _SETTING and config.value is not None:
                    return int(config.value)
    except (ClusterError, ValueError):
        pass
    return _DEFAULT_RETENTION_MS
