"""Topics in answers to Metadata and DescribeTopicPartitions: one broker has every partition."""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from pykcoord.catalogue import Topic
from pykcoord.server.api.messages import NONE, Each, Fields
from pykcoord.server.api.node_api import Cluster

# "not asked, or not known": org.apache.kafka.common.requests.MetadataResponse
NO_AUTHORIZED_OPERATIONS = -(2**31)
# A leader epoch would make clients validate their positions against logs that hold no records
# (pitfall 12); -1 says that there is none.
NO_LEADER_EPOCH = -1


def known_topic(topic: Topic, partitions: range, cluster: Cluster) -> Fields:
    """A topic of the catalogue, with these of its partitions."""
    replicas = (cluster.node_id,)

    def told(partition: int) -> Fields:
        return {
            "error_code": NONE,
            "partition_index": partition,
            "leader_id": cluster.node_id,
            "leader_epoch": NO_LEADER_EPOCH,
            "replica_nodes": replicas,
            "isr_nodes": replicas,
            # Empty, not null: Kafka's own tools do not expect null (KafkaAdminClient).
            "eligible_leader_replicas": (),
            "last_known_elr": (),
            "offline_replicas": (),
        }

    return {
        "error_code": NONE,
        "name": topic.name,
        "topic_id": topic.topic_id,
        "is_internal": cluster.events_of(topic) is not None,
        "partitions": Each(told, partitions),
        "topic_authorized_operations": NO_AUTHORIZED_OPERATIONS,
    }


def unknown_topic(name: str | None, topic_id: Any, error: ErrorCode) -> Fields:
    """A topic that was asked for and is answered with an error."""
    return {
        "error_code": error,
        "name": name,
        "topic_id": topic_id,
        "is_internal": False,
        "partitions": [],
        "topic_authorized_operations": NO_AUTHORIZED_OPERATIONS,
    }
