"""What keeps a node out of a cluster, before anything is changed there."""

from __future__ import annotations

import asyncio
import uuid

import pytest
from support.scripted_broker import ScriptedCluster

from pykcoord.kafka import ClientProperties, Cluster, OldClusterError
from pykcoord.log.replicas import NodeState
from pykcoord.node.errors import NodeError
from pykcoord.node.image import Image
from pykcoord.node.joining import (
    check_id,
    check_image,
    endpoints_of,
    known_features,
    look_around,
)
from pykcoord.node.metadata_records import (
    BrokerRegistered,
    Endpoint,
    FeatureSet,
    PartitionSet,
    TopicSet,
)

_ID = uuid.UUID(int=5)
_STATE = NodeState("cluster", 9, str(uuid.UUID(int=1)), str(_ID), 2, 40)


def _broker(broker_id: int, *endpoints: Endpoint, fenced: bool = False) -> BrokerRegistered:
    return BrokerRegistered(
        broker_id, uuid.UUID(int=broker_id), 10, endpoints, None, fenced, False, None
    )


def _image(level: int = 33, partitions: tuple[int, ...] = (0, 1)) -> Image:
    image = Image()
    image.apply(FeatureSet("metadata.version", level))
    image.apply(_broker(1, Endpoint("PLAINTEXT", "one", 9092, 0)))
    image.apply(TopicSet("__consumer_offsets", _ID))
    for number in partitions:
        image.apply(PartitionSet(_ID, number, (1,), (1,), (), (), 1, 0, 0, 0))
    return image


def test_a_cluster_that_fits() -> None:
    assert check_image(_image(), 9, None) == (_ID, 2)
    image = _image()
    image.apply(_broker(9, fenced=True))
    assert check_image(image, 9, _STATE) == (_ID, 2)  # this node, that comes again


@pytest.mark.parametrize(
    ("image", "node_id", "said"),
    [
        (_image(29), 9, r"metadata\.version is 29, and 30 \(Kafka 4\.3\) is needed.*watch"),
        (_image(34), 9, r"metadata\.version is 34, and up to 33 .* take a newer pykcoord"),
        (_image(), 1, r"node\.id 1 is in use: .* broker 1 at one:9092, which is alive"),
        (_image(partitions=()), 9, None),
        (_image(partitions=(0, 2)), 9, "lacks partitions"),
    ],
)
def test_what_does_not_fit(image: Image, node_id: int, said: str | None) -> None:
    if said is None:
        image.topics.clear()
        said = "no __consumer_offsets yet"
    with pytest.raises(NodeError, match=said):
        check_image(image, node_id, None)


def test_an_older_kafka_is_told_which_is_needed() -> None:
    async def story() -> None:
        cluster = ScriptedCluster()
        cluster.greatest = {1: 16}
        async with cluster.running():
            properties = ClientProperties.of({"bootstrap.servers": cluster.bootstrap})
            opened = await Cluster.open(properties)
            try:
                await look_around(opened)
            finally:
                await opened.close()

    with pytest.raises(OldClusterError, match=r"needs Kafka 4\.3 or newer; `pykcoord watch` needs"):
        asyncio.run(story())


def test_a_lost_directory_of_a_registered_node_is_told_apart() -> None:
    image = _image()
    image.apply(_broker(9, Endpoint("PLAINTEXT", "nine", 1, 0), fenced=True))
    with pytest.raises(NodeError, match=r"which is down.*unregister --id 9"):
        check_image(image, 9, None)


def test_the_id_of_a_controller_is_refused_before_it_is_asked() -> None:
    check_id(9, {1: ("one", 9093)})
    with pytest.raises(NodeError, match=r"a controller 1 at one:9093"):
        check_id(1, {1: ("one", 9093)})


def test_each_listener_of_the_brokers_leads_here() -> None:
    image = _image()
    image.apply(_broker(2, Endpoint("PLAINTEXT", "two", 1, 0), Endpoint("INTERNAL", "two", 2, 0)))
    assert endpoints_of(image, "here", 7) == [
        Endpoint("INTERNAL", "here", 7, 0), Endpoint("PLAINTEXT", "here", 7, 0),
    ]  # fmt: skip
    image.apply(_broker(3, Endpoint("SECURE", "three", 3, 3)))
    with pytest.raises(NodeError, match="listener SECURE is of TLS or SASL"):
        endpoints_of(image, "here", 7)


def test_no_feature_is_promised_that_is_not_known() -> None:
    supported = {"metadata.version": (7, 40), "group.version": (0, 1), "later.version": (0, 1)}
    assert known_features(supported) == [("metadata.version", 7, 33), ("group.version", 0, 1)]
