"""The drop-in assignors without a server: their bytes, their results, and the origin of their
input. Groups with Java's consumers are in `tests/clients/test_mixed.py`.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Mapping
from types import ModuleType, SimpleNamespace
from typing import Any

import kafka.structs
import pytest
from aiokafka.cluster import ClusterMetadata as AiokafkaMetadata
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.coordinator.protocol import ConsumerProtocol
from aiokafka.protocol.metadata import MetadataResponse_v5
from kafka.cluster import ClusterMetadata as KafkaPythonMetadata
from kafka.coordinator.assignors.abstract import RebalanceProtocol
from kafka.coordinator.consumer import ConsumerCoordinator
from kafka.protocol.consumer.metadata import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from kafka.protocol.metadata import MetadataResponse

import pykcoord
from pykcoord import Subscription, assignors
from pykcoord._native import decode_assignment
from pykcoord.clients import aiokafka as of_aiokafka
from pykcoord.clients import kafka_python as of_kafka_python
from pykcoord.errors import ArgumentError

Assignment = dict[str, list[tuple[str, int]]]
CLASSES = {
    "range": "RangeAssignor",
    "roundrobin": "RoundRobinAssignor",
    "sticky": "StickyAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}
CLIENTS = (of_kafka_python, of_aiokafka)


def cluster(client: ModuleType, topics: Mapping[str, int | list[list[str]]]) -> Any:
    """The client's own metadata: a broker for each rack, one without, and a replica on one that
    is gone."""
    racks = {topic: [[]] * p if isinstance(p, int) else p for topic, p in topics.items()}
    names = sorted({rack for topic in racks.values() for p in topic for rack in p})
    brokers = [(number, "host", 9092, rack) for number, rack in enumerate([*names, None])]
    replicas = {
        topic: [[*(names.index(rack) for rack in p), len(names), 99] for p in partitions]
        for topic, partitions in racks.items()
    }
    if client is of_aiokafka:
        metadata = AiokafkaMetadata()
        rows = [
            (0, topic, False, [(0, n, 0, on, [0], []) for n, on in enumerate(partitions)])
            for topic, partitions in replicas.items()
        ]
        metadata.update_metadata(MetadataResponse_v5(0, brokers, "cluster", 0, rows))
        return metadata
    metadata = KafkaPythonMetadata(bootstrap_servers="127.0.0.1:9092")
    metadata.update_metadata(_kafka_python_metadata(brokers, replicas))
    return metadata


def _kafka_python_metadata(
    brokers: list[tuple[int, str, int, str | None]], replicas: Mapping[str, list[list[int]]]
) -> MetadataResponse:
    topic_class = MetadataResponse.MetadataResponseTopic
    partition_class = topic_class.MetadataResponsePartition
    topics = [
        topic_class(
            error_code=0,
            name=topic,
            is_internal=False,
            partitions=[
                partition_class(error_code=0, partition_index=n, leader_id=0, leader_epoch=0,
                                replica_nodes=on, isr_nodes=[0], offline_replicas=[], version=8)
                for n, on in enumerate(partitions)
            ],
            version=8,
        )
        for topic, partitions in replicas.items()
    ]  # fmt: skip
    nodes = [MetadataResponse.MetadataResponseBroker(*row, version=8) for row in brokers]
    return MetadataResponse(
        version=8, brokers=nodes, cluster_id="cluster", controller_id=0, topics=topics
    )


class AiokafkaCoordinator(GroupCoordinator):  # type: ignore[misc]
    """A consumer's coordinator, as far as it calls an assignor."""

    def __init__(self, generation: int = -1) -> None:
        self.generation = generation

    def metadata(self, assignor: Any, topics: Iterable[str]) -> bytes:
        return assignor.metadata(frozenset(topics))

    def assigned(self, assignor: Any, partitions: Iterable[tuple[str, int]]) -> None:
        assignor.on_assignment(
            ConsumerProtocol.ASSIGNMENT.decode(assignors.encode_assignment(partitions))
        )

    def lead(self, assignor: Any, cluster: Any, response: Any) -> dict[str, bytes]:
        members = {row[0]: ConsumerProtocol.METADATA.decode(row[-1]) for row in response.members}
        return assignor.assign(cluster, members)


def kafka_python_coordinator(
    assignor: Any, generation: int, owned: Iterable[tuple[str, int]], topics: Iterable[str]
) -> Any:
    """The real thing, as far as it asks an assignor for metadata."""
    coordinator = ConsumerCoordinator.__new__(ConsumerCoordinator)
    coordinator._assignors = {assignor.name: assignor}
    coordinator._generation = SimpleNamespace(generation_id=generation)
    coordinator._rebalance_protocol = max(assignor.supported_protocols())
    coordinator._subscription = SimpleNamespace(
        subscription=set(topics),
        assigned_partitions=lambda: {kafka.structs.TopicPartition(*row) for row in owned},
    )
    return coordinator


def lead(
    client: ModuleType, assignor: Any, topics: Mapping[str, Any], members: Mapping[str, Any]
) -> Assignment:
    """The assignments that a leader of that client sends; `members`: subscriptions, or bytes as
    they came."""
    rows = [
        (member, given.group_instance_id, assignors.encode_subscription(given))
        if isinstance(given, Subscription)
        else (member, None, given)
        for member, given in members.items()
    ]
    if client is of_aiokafka:
        response = SimpleNamespace(API_VERSION=5, members=rows)
        sent = AiokafkaCoordinator().lead(assignor, cluster(client, topics), response)
    else:
        decoded = [
            SimpleNamespace(
                member_id=member,
                group_instance_id=instance,
                metadata=ConsumerProtocolSubscription.decode(metadata),
            )
            for member, instance, metadata in rows
        ]
        sent = assignor().assign(cluster(client, topics), decoded)
    return {member: _pairs(data) for member, data in sent.items()}


def _pairs(assignment: bytes) -> list[tuple[str, int]]:
    decoded = decode_assignment(assignment)
    assert decoded is not None
    version, topics, user_data = decoded
    assert (version, user_data) == (3, None), "as a Java leader writes it"
    return [(topic, number) for topic, numbers in topics for number in numbers]


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("strategy", CLASSES)
def test_a_newcomer_sends_what_javas_does(strategy: str, client: ModuleType) -> None:
    user_data = "ffffffff" if strategy != "cooperative-sticky" else "00000004ffffffff"
    assignor = getattr(client, CLASSES[strategy])
    assert assignor.name == strategy
    if client is of_kafka_python:
        assignor = assignor()
    sent = assignor.metadata({"t"})
    assert sent.hex() == f"000300000001000174{user_data}00000000ffffffffffff"


def test_kafka_python_members_send_what_javas_do() -> None:
    given = ConsumerProtocolAssignment.decode(
        assignors.encode_assignment([("t0", 0), ("t0", 3), ("t1", 1)])
    )
    sticky = of_kafka_python.StickyAssignor()
    sticky.on_assignment(given, 7)
    sent = assignors.decode_subscription(sticky.metadata({"t1", "t0"}))
    assert sent.topics == ["t0", "t1"]
    assert (sent.owned_partitions, sent.generation_id) == ([], 7)
    assert sent.user_data is not None
    assert sent.user_data.hex() == (
        "00000002000274300000000200000000000000030002743100000001"  # t0: 0, 3; t1: ...
        "0000000100000007"  # ... 1; generation 7
    )
    cooperative = of_kafka_python.CooperativeStickyAssignor()
    cooperative.on_assignment(given, 7)
    sent = assignors.decode_subscription(cooperative.metadata({"t0"}))
    assert sent.owned_partitions == [("t0", 0), ("t0", 3)], "t1 is not subscribed to any more"
    assert (sent.generation_id, sent.user_data) == (7, b"\0\0\0\7")


def test_an_expelled_cooperative_member_claims_nothing() -> None:
    """A leader would wait until it gives up partitions that it does not have."""
    assignor = of_kafka_python.CooperativeStickyAssignor()
    given = ConsumerProtocolAssignment.decode(assignors.encode_assignment([("t", 0), ("t", 1)]))
    assignor.on_assignment(given, 7)
    for generation, owned in ((7, [("t", 0), ("t", 1)]), (-1, [])):
        coordinator = kafka_python_coordinator(assignor, generation, owned, ["t"])
        ((_, metadata),) = coordinator.group_protocols()
        sent = assignors.decode_subscription(metadata)
        assert sent.owned_partitions == owned
        assert sent.generation_id == (generation if generation >= 0 else None)


def test_a_cooperative_member_that_is_eager_claims_nothing() -> None:
    assignor = of_kafka_python.CooperativeStickyAssignor()
    coordinator = kafka_python_coordinator(assignor, 7, [("t", 0)], ["t"])
    coordinator._rebalance_protocol = RebalanceProtocol.EAGER
    ((_, metadata),) = coordinator.group_protocols()
    assert assignors.decode_subscription(metadata).owned_partitions == []


def test_aiokafka_consumers_of_one_process_have_a_memory_each() -> None:
    first, second = AiokafkaCoordinator(7), AiokafkaCoordinator(7)
    sticky = of_aiokafka.StickyAssignor
    first.assigned(sticky, [("t", 0)])
    second.assigned(sticky, [("t", 1)])
    for coordinator, partition in ((first, 0), (second, 1)):
        sent = assignors.decode_subscription(coordinator.metadata(sticky, ["t"]))
        assert sent.user_data == assignors.sticky_user_data([("t", partition)], 7)
        assert (sent.owned_partitions, sent.generation_id) == ([], 7)
    newcomer = AiokafkaCoordinator().metadata(sticky, ["t"])
    assert assignors.decode_subscription(newcomer).user_data is None


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("strategy", CLASSES)
def test_a_leader_sees_all_that_javas_does(strategy: str, client: ModuleType) -> None:
    """Owned partitions, generations, racks of members and replicas, instance ids."""
    racks = [["a", "b"], ["b", "c"], ["c", "a"], ["a", "c"]]
    topics = {"t": racks, "u": 3, "other": 2}
    claims = {"m1": ([("t", 0), ("t", 1)], 4), "m2": ([("t", 1), ("t", 2)], 5)}
    members = {
        member: Subscription(
            ["t", "u"], owned, generation, rack, assignors.sticky_user_data(owned, generation),
            instance,
        )
        for (member, (owned, generation)), rack, instance in zip(
            claims.items(), "ca", ("z", None), strict=True
        )
    }  # fmt: skip
    members["m0"] = Subscription(["t", "u"], rack_id="b")
    # Members and replicas without a rack in the client's metadata have none.
    known = {"t": racks, "u": [[]] * 3}
    expected = pykcoord.assign(strategy, known, members, compat="java")
    assert lead(client, getattr(client, CLASSES[strategy]), topics, members) == expected


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("strategy", CLASSES)
@pytest.mark.parametrize(
    "garbage",
    [b"", b"\0", b"\x7f\xff\xff\xff" * 3, bytes(100)],
    ids=["empty", "short", "endless", "zeros"],
)
def test_garbage_and_strange_claims(garbage: bytes, strategy: str, client: ModuleType) -> None:
    members = {
        "a": Subscription(["t", "t", "ghost", "empty"], user_data=garbage),
        "b": Subscription(["t"], [("t", -1), ("t", 0), ("t", 9), ("ghost", 2**31 - 1)],
                          generation_id=-5, user_data=garbage),
        "c": Subscription(),
    }  # fmt: skip
    given = lead(client, getattr(client, CLASSES[strategy]), {"t": 4, "empty": 0}, members)
    assert given["c"] == []
    assert sorted(given["a"] + given["b"]) == [("t", number) for number in range(4)]


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("strategy", CLASSES)
def test_no_topic_is_known(strategy: str, client: ModuleType) -> None:
    """A leader may assign before its metadata have come; it rebalances when they do."""
    members = {"a": Subscription(["t"], [("t", 0)], 1), "b": Subscription(["u"])}
    given = lead(client, getattr(client, CLASSES[strategy]), {}, members)
    assert given == {"a": [], "b": []}


def test_a_subscription_that_is_cut_off_counts_as_far_as_aiokafka_read_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cut = assignors.encode_subscription(Subscription(["t"], [("t", 0)], 1))[:-7]
    members = {"a": cut, "b": Subscription(["t"])}
    given = lead(of_aiokafka, of_aiokafka.CooperativeStickyAssignor, {"t": 2}, members)
    assert sorted(map(len, given.values())) == [1, 1]
    assert "member a is cut off" in caplog.text


def test_a_leader_that_is_shown_no_claims_refuses_cooperative_members() -> None:
    metadata = assignors.encode_subscription(Subscription(["t"], [("t", 0)], 1))
    members = {"a": ConsumerProtocol.METADATA.decode(metadata)}
    known = cluster(of_aiokafka, {"t": 1})
    with pytest.raises(ArgumentError, match=r"a may own partitions.*use StickyAssignor"):
        of_aiokafka.CooperativeStickyAssignor.assign(known, members)
    members["a"].version = 0
    given = of_aiokafka.CooperativeStickyAssignor.assign(known, members)
    assert _pairs(given["a"]) == [("t", 0)]


class Remembering(pykcoord.Assignor):
    """Gives everything to the member that its user data name."""

    name = "remembering"

    def __init__(self) -> None:
        self.given: list[Any] = []

    def assign(
        self, topics: Mapping[str, int], members: Mapping[str, Subscription]
    ) -> Mapping[str, Iterable[tuple[str, int]]]:
        chosen = next(member for member, given in members.items() if given.user_data == b"me")
        return {chosen: [(topic, n) for topic, count in topics.items() for n in range(count)]}

    def user_data(self, topics: Any) -> bytes:
        return ",".join(topics).encode() + str(self.given).encode()

    def on_assignment(self, partitions: Any, generation_id: int) -> None:
        self.given.append((partitions, generation_id))


@pytest.mark.parametrize("client", CLIENTS)
def test_ones_own_is_asked_for_all_it_can_answer(client: ModuleType) -> None:
    mine = client.drop_in(Remembering)
    assert mine.name == "remembering"
    members = {"a": Subscription(["t"]), "b": Subscription(["t"], user_data=b"me")}
    assert lead(client, mine, {"t": 2}, members) == {"a": [], "b": [("t", 0), ("t", 1)]}
    with pytest.raises(ArgumentError, match="no member"):
        lead(client, client.drop_in(_Wrong), {"t": 2}, members)


def test_each_consumer_has_an_instance_of_ones_own() -> None:
    given = [pykcoord.TopicPartition("t", 0)]
    mine = of_kafka_python.drop_in(Remembering)
    first, second = mine(), mine()
    first.on_assignment(ConsumerProtocolAssignment.decode(assignors.encode_assignment(given)), 3)
    assert _user_data(first.metadata({"u", "t"})) == f"t,u{[(given, 3)]}".encode()
    assert _user_data(second.metadata({"t"})) == b"t[]"

    mine = of_aiokafka.drop_in(Remembering)
    one, other = AiokafkaCoordinator(3), AiokafkaCoordinator(3)
    one.assigned(mine, given)
    assert _user_data(one.metadata(mine, ["t"])) == f"t{[(given, 3)]}".encode()
    assert _user_data(other.metadata(mine, ["t"])) == b"t[]"

    shared = Remembering()
    of_kafka_python.drop_in(shared)()._member.assigned(given, 4)
    assert shared.given == [(given, 4)]


def _user_data(metadata: bytes) -> bytes | None:
    return assignors.decode_subscription(metadata).user_data


class _Wrong(Remembering):
    name = "wrong"

    def assign(self, topics: Any, members: Any) -> dict[str, list[tuple[str, int]]]:
        return {"stranger": []}


class _Nameless(Remembering):
    name = ""


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("wrong", ["range", None, int, Remembering.assign, _Nameless])
def test_what_is_no_assignor_is_refused(wrong: Any, client: ModuleType) -> None:
    with pytest.raises(ArgumentError) as raised:
        client.drop_in(wrong)
    assert raised.value.argument == "assignor"


@pytest.mark.parametrize("client", CLIENTS)
def test_a_rack_of_ones_own(client: ModuleType) -> None:
    class Near(client.RangeAssignor):  # type: ignore[misc, name-defined]
        rack_id = "eu-1"

    sent = (Near() if client is of_kafka_python else Near).metadata({"t"})
    assert assignors.decode_subscription(sent).rack_id == "eu-1"


@pytest.mark.parametrize(
    ("module", "library", "extra"),
    [("kafka_python", "kafka", "kafka-python"), ("aiokafka", "aiokafka", "aiokafka")],
)
def test_without_its_client_a_module_says_what_to_install(
    module: str, library: str, extra: str
) -> None:
    code = (
        f"import sys; sys.modules[{library!r}] = None\n"
        f"try: import pykcoord.clients.{module}\n"
        "except ImportError as error: print(error)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    said = ran.stdout.strip()
    assert said.startswith(f"pykcoord.clients.{module} needs ")
    assert said.endswith(f": pip install 'pykcoord[{extra}]'")
