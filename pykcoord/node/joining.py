"""Before a node registers: what the cluster is, who its controllers are, and whether this node can
be of use there. Every refusal says the way out.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kio.schema.api_versions.v4.request import ApiVersionsRequest
from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.describe_quorum.v2.request import DescribeQuorumRequest, PartitionData, TopicData
from kio.schema.types import TopicName
from kio.static.primitive import i8, i32

from pykcoord.addresses import address_text
from pykcoord.kafka import Cluster, ClusterError, Connection, OldClusterError
from pykcoord.log.folders import TOPIC
from pykcoord.log.replicas import NodeState
from pykcoord.node.errors import NodeError
from pykcoord.node.image import Image
from pykcoord.node.metadata_records import Endpoint

__all__ = [
    "Surroundings",
    "Timing",
    "check_id",
    "check_image",
    "endpoints_of",
    "known_features",
    "look_around",
]

# Where directories can be cordoned (KIP-1066), and the newest whose records are known here: those
# of Kafka 4.3 and 4.4.
_LEAST_METADATA, _MOST_METADATA = 30, 33
_KNOWN = {
    "metadata.version": _MOST_METADATA, "kraft.version": 1, "group.version": 1,
    "transaction.version": 2, "share.version": 2, "streams.version": 1,
    "eligible.leader.replicas.version": 1,
}  # fmt: skip
_NEEDED = {1: 17, 45: 0, 55: 2, 60: 0}
_TOPIC, _BROKER, _UNKNOWN_TOPIC = 2, 4, 3
_MIN_ISR = "min.insync.replicas"
_WATCH = "`pykcoord watch` needs less"


class Timing(NamedTuple):
    """What brokers of the cluster are set to, with Kafka's defaults: for how long the controllers
    count one as alive that they do not hear of, how often it says so, and for how long a follower
    may lag; in seconds. `min_isr`: min.insync.replicas of `__consumer_offsets`."""

    session_seconds: float = 9.0
    heartbeat_seconds: float = 2.0
    lag_seconds: float = 30.0
    min_isr: int = 1


class Surroundings(NamedTuple):
    """What brokers say: `controllers` by id, `versions` of APIs, `features` (name, least, most)
    that this node can take part in, and `timing`."""

    controllers: Mapping[int, tuple[str, int]]
    versions: Mapping[int, tuple[int, int]]
    features: Sequence[tuple[str, int, int]]
    timing: Timing


async def look_around(cluster: Cluster) -> Surroundings:
    """Asks a broker. Raises NodeError, OldClusterError, ClusterError."""
    last: ClusterError | None = None
    for broker in sorted(cluster.view.brokers):
        try:
            return await _ask(cluster, broker)
        except OldClusterError:
            raise
        except ClusterError as error:
            last = error
    raise last or NodeError("the cluster has no broker")


async def _ask(cluster: Cluster, broker: int) -> Surroundings:
    connection = await cluster.control(broker)
    for key, version in _NEEDED.items():
        if not connection.has(key, version):
            raise OldClusterError(connection.address, f"a node needs Kafka 4.3 or newer; {_WATCH}")
    request = ApiVersionsRequest(client_software_name="pykcoord", client_software_version="1")
    told = await connection.ask(request)
    supported = {
        one.name: (int(one.min_version), int(one.max_version)) for one in told.supported_features
    }
    if supported.get("metadata.version", (0, 0))[1] < _LEAST_METADATA:
        raise OldClusterError(connection.address, f"a node needs Kafka 4.3 or newer; {_WATCH}")
    features = known_features(supported)
    quorum = await connection.ask(
        DescribeQuorumRequest(
            topics=(
                TopicData(
                    topic_name=TopicName("__cluster_metadata"),
                    partitions=(PartitionData(partition_index=i32(0)),),
                ),
            )
        )
    )
    if quorum.error_code.value:
        raise NodeError(
            f"{connection.address}: DescribeQuorum: {quorum.error_code.name}; the principal needs "
            "DESCRIBE on the cluster"
        )
    controllers = {
        int(node.node_id): (node.listeners[0].host, int(node.listeners[0].port))
        for node in quorum.nodes
        if node.listeners
    }
    if not controllers:
        raise NodeError(
            f"{connection.address}: it does not tell where the controllers are; a cluster of "
            "KRaft is needed"
        )
    timing = await _timing(connection, broker)
    return Surroundings(controllers, connection.versions, features, timing)


def known_features(supported: Mapping[str, tuple[int, int]]) -> list[tuple[str, int, int]]:
    """What this node registers of the features that brokers support: (name, least, most), up to
    those of Kafka 4.4. With a later one finalized the controllers refuse it, and while it is
    registered they refuse to finalize one."""
    return [
        (name, least, min(most, _KNOWN[name]))
        for name, (least, most) in supported.items()
        if name in _KNOWN and least <= _KNOWN[name]
    ]


async def _timing(connection: Connection, broker: int) -> Timing:
    """As one broker is set. A cluster whose brokers are set differently is not known here."""
    names = {
        "broker.session.timeout.ms", "broker.heartbeat.interval.ms", "replica.lag.time.max.ms",
    }  # fmt: skip
    answer = await connection.ask(
        DescribeConfigsRequest(
            resources=(
                DescribeConfigsResource(
                    resource_type=i8(_BROKER), resource_name=str(broker),
                    configuration_keys=tuple(sorted(names)),
                ),
                DescribeConfigsResource(
                    resource_type=i8(_TOPIC), resource_name=TOPIC,
                    configuration_keys=(_MIN_ISR,),
                ),
            )
        )
    )  # fmt: skip
    found: dict[str, int] = {}
    for result in answer.results:
        code = result.error_code
        if code.value and code.value != _UNKNOWN_TOPIC:
            raise NodeError(
                f"{connection.address}: DescribeConfigs of {result.resource_name}: {code.name}; "
                "the principal needs DESCRIBE_CONFIGS on the cluster and on the topic"
            )
        for one in result.configs:
            if one.value is not None and one.value.isdigit():
                found[one.name] = int(one.value)
    default = Timing()
    return Timing(
        found.get("broker.session.timeout.ms", 1000 * default.session_seconds) / 1000,
        found.get("broker.heartbeat.interval.ms", 1000 * default.heartbeat_seconds) / 1000,
        found.get("replica.lag.time.max.ms", 1000 * default.lag_seconds) / 1000,
        found.get(_MIN_ISR, default.min_isr),
    )


def check_id(node_id: int, controllers: Mapping[int, tuple[str, int]]) -> None:
    """Before the controllers are asked anything under this id: as a voter's it would count in their
    elections and their high watermark. Raises NodeError."""
    if node_id in controllers:
        raise NodeError(
            f"node.id {node_id} is in use: the cluster has a controller {node_id} at "
            f"{address_text(*controllers[node_id])}; take a free one (--set node.id=N)"
        )


def endpoints_of(image: Image, host: str, port: int) -> list[Endpoint]:
    """One for each listener of the brokers, so that whoever bootstraps there is sent here. Raises
    NodeError where a listener is not PLAINTEXT."""
    names: Counter[str] = Counter()
    protocols: dict[str, int] = {}
    for broker in image.brokers.values():
        for one in broker.endpoints:
            names[one.name] += 1
            protocols[one.name] = one.protocol
    if not names:
        raise NodeError("the cluster has no registered broker")
    closed = [name for name, protocol in protocols.items() if protocol != 0]
    if closed:
        raise NodeError(
            f"the brokers' listener {closed[0]} is of TLS or SASL, which a node cannot offer yet: "
            "clients and brokers there could not reach it"
        )
    return [Endpoint(name, host, port, 0) for name in sorted(names)]


def check_image(image: Image, node_id: int, state: NodeState | None) -> tuple[uuid.UUID, int]:
    """The id of `__consumer_offsets` and how many partitions it has. Raises NodeError where this
    node cannot join."""
    level = image.features.get("metadata.version", 0)
    if level < _LEAST_METADATA:
        raise NodeError(
            f"the cluster's metadata.version is {level}, and {_LEAST_METADATA} (Kafka 4.3) is "
            f"needed: upgrade it with kafka-features; {_WATCH}"
        )
    if level > _MOST_METADATA:
        raise NodeError(
            f"the cluster's metadata.version is {level}, and up to {_MOST_METADATA} (Kafka 4.4) is "
            "known: take a newer pykcoord"
        )
    if node_id in image.brokers and (state is None or state.broker_epoch < 0):
        own = image.brokers[node_id]
        where = f"{own.endpoints[0].host}:{own.endpoints[0].port}" if own.endpoints else "?"
        alive = "which is down" if own.is_fenced else "which is alive"
        raise NodeError(
            f"node.id {node_id} is in use: the cluster has a broker {node_id} at {where}, {alive}; "
            "take a free one (--set node.id=N). If it was this node, and its directory is lost: "
            f"kafka-cluster unregister --id {node_id}"
        )
    topic_id = image.topics.get(TOPIC)
    if topic_id is None:
        raise NodeError(
            f"the cluster has no {TOPIC} yet: it is made when the first group is used; start one "
            "consumer, and then this node"
        )
    numbers = sorted(image.partitions[topic_id])
    if numbers != list(range(len(numbers))):
        raise NodeError(f"{TOPIC} lacks partitions in the metadata log: {numbers}")
    return topic_id, len(numbers)
