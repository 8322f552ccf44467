"""The node-level APIs, every version that is served, over a socket."""

from __future__ import annotations

import datetime
import uuid

import pytest
from kio.schema.errors import ErrorCode
from support.kio_client import ask, encode

from pykcoord.server import Broker
from pykcoord.server.api.registry import APIS

from .conftest import serving

MS = datetime.timedelta(milliseconds=1)
UNKNOWN_ID = uuid.UUID("00000000-0000-4000-8000-00000000dead")


def versions(key: int) -> pytest.MarkDecorator:
    api = APIS[key]
    return pytest.mark.parametrize("v", range(api.minimum, api.maximum + 1))


def topic_named(name: str | None, topic_id: uuid.UUID | None = None) -> dict:
    return {"name": name, "topic_id": topic_id}


def metadata(topics, **more) -> dict:
    return {
        "topics": topics,
        "allow_auto_topic_creation": True,
        "include_topic_authorized_operations": False,
        "include_cluster_authorized_operations": False,
        **more,
    }


@versions(3)
def test_metadata(run, v):
    async def main():
        topics = {"orders": 3, "payments": 1}
        async with serving(topics=topics, server_options={"advertise": ("host", 99)}) as rig:
            client = await rig.connect()
            asked = [topic_named("orders"), topic_named("nope"), topic_named("a b")]
            response = await ask(client, 3, v, **metadata(asked))
            assert [(b.node_id, b.host, b.port) for b in response.brokers] == [(1, "host", 99)]
            orders, nope, illegal = response.topics
            assert (orders.error_code, orders.name) == (0, "orders")
            assert [p.partition_index for p in orders.partitions] == [0, 1, 2]
            assert {p.leader_id for p in orders.partitions} == {1}
            assert (nope.error_code, nope.partitions) == (3, ())
            assert illegal.error_code == 17
            if v >= 2:
                assert response.cluster_id == "test-cluster"
            if v >= 10:
                assert orders.topic_id == rig.catalogue.topics()["orders"].topic_id
            if v >= 7:
                assert {p.leader_epoch for p in orders.partitions} == {-1}
            everything = await ask(client, 3, v, **metadata(None if v else []))
            assert [topic.name for topic in everything.topics] == ["orders", "payments"]
            if v:
                assert (await ask(client, 3, v, **metadata([]))).topics == ()

    run(main())


@pytest.mark.parametrize("v", [10, 11, 12, 13])
def test_metadata_by_id(run, v):
    async def main():
        async with serving() as rig:
            client = await rig.connect()
            known = rig.catalogue.topics()["orders"].topic_id
            name = None if v >= 12 else ""
            asked = [topic_named(name, known), topic_named(name, UNKNOWN_ID)]
            if v < 12:  # Kafka reads ids from v12 on only
                asked = [topic_named(None, known), topic_named(None, UNKNOWN_ID)]
            response = await ask(client, 3, v, **metadata(asked))
            found, unknown = response.topics
            assert (found.error_code, found.name, found.topic_id) == (0, "orders", known)
            assert (unknown.error_code, unknown.topic_id) == (100, UNKNOWN_ID)

    run(main())


def test_metadata_makes_topics_only_when_told_to(run):
    async def main(options):
        async with serving(server_options=options) as rig:
            client = await rig.connect()
            asked = [topic_named("fresh")]
            refuses = metadata(asked, allow_auto_topic_creation=False)
            assert (await ask(client, 3, 9, **refuses)).topics[0].error_code == 3
            return (await ask(client, 3, 9, **metadata(asked))).topics[0].error_code

    assert run(main({})) == 3
    assert run(main({"auto_create_topics": True})) == 0


class Three:
    """Three nodes, of which each coordinates the groups that begin with its number."""

    version = 1
    controller_id = 3

    def ends(self, wanted):
        return None

    def brokers(self):
        return [Broker(node_id, "127.0.0.1", 9000 + node_id) for node_id in (1, 2, 3)]

    def coordinator(self, group_id):
        found = [broker for broker in self.brokers() if group_id.startswith(str(broker.node_id))]
        return found[0] if found else None


@versions(10)
def test_the_coordinator_of_a_group_is_the_peer_that_leads_its_shard(run, v):
    async def main():
        peers = Three()
        async with serving(server_options={"peers": peers}) as rig:
            client = await rig.connect()

            async def find(group_id):
                found = await ask(
                    client, 10, v, key=group_id, key_type=0, coordinator_keys=(group_id,)
                )
                found = found if v < 4 else found.coordinators[0]
                return found.error_code, found.node_id, found.port

            assert await find("2-billing") == (0, 2, 9002)
            assert await find("4-billing") == (15, -1, -1)  # COORDINATOR_NOT_AVAILABLE
            peers.coordinator = lambda group_id: peers.brokers()[2]
            assert await find("2-billing") == (0, 2, 9002)
            peers.version += 1
            assert await find("2-billing") == (0, 3, 9003)
            told = await ask(client, 3, 9, **metadata([]))
            brokers = told.brokers
            assert told.controller_id == 3
            own = rig.server.address[1]
            assert [(b.node_id, b.port) for b in brokers] == [(1, own), (2, 9002), (3, 9003)]

    run(main())


@versions(10)
def test_find_coordinator(run, v):
    async def main():
        async with serving() as rig:
            client = await rig.connect()
            port = rig.server.address[1]
            response = await ask(
                client, 10, v, key="g", key_type=0, coordinator_keys=("g", "", "g")
            )
            if v < 4:
                assert (response.node_id, response.host, response.port) == (1, "127.0.0.1", port)
                assert response.error_code == 0
                if v:
                    assert response.error_message == "NONE"
            else:
                assert [c.key for c in response.coordinators] == ["g", "", "g"]
                assert {(c.node_id, c.port, c.error_message) for c in response.coordinators} == {
                    (1, port, "")
                }
            for key_type in (1, 2, 3, -1) if v else ():
                refused = await ask(
                    client, 10, v, key="g", key_type=key_type, coordinator_keys=("g",)
                )
                answer = refused if v < 4 else refused.coordinators[0]
                assert (answer.error_code, answer.node_id, answer.host, answer.port) == (
                    42, -1, "", -1,
                )  # fmt: skip
                below_share = key_type == 2 and 4 <= v < 6
                assert bool(answer.error_message) != below_share

    run(main())


def list_offsets(timestamp: int, topic: str = "orders", partition: int = 1) -> dict:
    asked = {"partition_index": partition, "current_leader_epoch": -1, "timestamp": timestamp}
    return {
        "replica_id": -1,
        "isolation_level": 0,
        "timeout": MS,
        "topics": [{"name": topic, "partitions": [asked]}],
    }


@versions(2)
def test_list_offsets(run, v):
    async def main():
        async with serving() as rig:
            rig.catalogue.set_end_offsets({("orders", 1): 42})
            client = await rig.connect()

            async def offset(*asked) -> tuple[int, int]:
                response = await ask(client, 2, v, **list_offsets(*asked))
                partition = response.topics[0].partitions[0]
                return partition.error_code, partition.offset

            assert await offset(-1) == (0, 42)
            assert await offset(-2) == (0, 0)
            assert await offset(1_700_000_000_000) == (0, -1)
            assert await offset(-1, "orders", 2) == (0, 0)
            assert await offset(-1, "orders", 12) == (3, -1)
            assert await offset(-1, "nope", 0) == (3, -1)
            # A group may be further than the owner says, and the owner further than any group.
            rig.node.furthest = {("orders", 1): 41, ("orders", 2): 7}
            assert await offset(-1) == (0, 42)
            assert await offset(-1, "orders", 2) == (0, 7)
            assert await offset(-2, "orders", 2) == (0, 0)
            for timestamp, since in ((-3, 7), (-4, 8), (-5, 9), (-6, 11), (-7, 99)):
                expected = 0 if v >= since else 35
                assert (await offset(timestamp))[0] == expected

    run(main())


@versions(23)
def test_offset_for_leader_epoch_never_truncates(run, v):
    async def main():
        async with serving() as rig:
            client = await rig.connect()
            partitions = [
                {"partition": p, "current_leader_epoch": -1, "leader_epoch": 5} for p in (0, 99)
            ]
            response = await ask(
                client, 23, v, replica_id=-1,
                topics=[{"topic": "orders", "partitions": partitions}],
            )  # fmt: skip
            known, unknown = response.topics[0].partitions
            assert (known.error_code, known.leader_epoch) == (0, 5)
            assert known.end_offset == 2**63 - 1
            assert (unknown.error_code, unknown.end_offset) == (3, -1)

    run(main())


@versions(60)
def test_describe_cluster(run, v):
    async def main():
        async with serving() as rig:
            client = await rig.connect()
            fields = {
                "include_cluster_authorized_operations": False,
                "include_fenced_brokers": False,
            }
            response = await ask(client, 60, v, endpoint_type=1, **fields)
            assert (response.error_code, response.cluster_id, response.controller_id) == (
                0, "test-cluster", 1,
            )  # fmt: skip
            assert [(b.broker_id, b.port) for b in response.brokers] == [(1, rig.server.address[1])]
            if v:
                for endpoint_type, code in ((2, 114), (3, 115)):
                    refused = await ask(client, 60, v, endpoint_type=endpoint_type, **fields)
                    assert (refused.error_code, refused.brokers) == (code, ())

    run(main())


@versions(32)
def test_describe_configs(run, v):
    async def main():
        options = {"broker_configs": {"group.max.size": "250", "x.enable": "true"}}
        async with serving(server_options=options) as rig:
            rig.catalogue.create("kept", 1, {"cleanup.policy": "compact"})
            client = await rig.connect()

            async def configs(kind, name, keys=None):
                resource = {
                    "resource_type": kind, "resource_name": name, "configuration_keys": keys,
                }  # fmt: skip
                response = await ask(
                    client, 32, v, resources=[resource], include_synonyms=False,
                    include_documentation=False,
                )  # fmt: skip
                (result,) = response.results
                return result.error_code, {c.name: c.value for c in result.configs}

            assert await configs(4, "1") == (0, {"group.max.size": "250", "x.enable": "true"})
            assert await configs(4, "1", ("x.enable",)) == (0, {"x.enable": "true"})
            assert await configs(4, "2") == (42, {})
            assert await configs(2, "kept") == (0, {"cleanup.policy": "compact"})
            assert await configs(2, "nope") == (3, {})
            assert await configs(99, "x") == (42, {})

    run(main())


def new_topic(name, partitions=1, replication_factor=1, assignments=(), configs=()) -> dict:
    return {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": replication_factor,
        "assignments": assignments,
        "configs": configs,
    }


@versions(19)
def test_create_topics(run, v):
    async def main():
        async with serving() as rig:
            client = await rig.connect()

            async def create(*topics, validate_only=False):
                response = await ask(
                    client, 19, v, topics=topics, timeout=MS, validate_only=validate_only
                )
                return {topic.name: topic for topic in response.topics}

            mine = [{"partition_index": p, "broker_ids": (1,)} for p in (1, 0)]
            others = [{"partition_index": 0, "broker_ids": (1, 2)}]
            results = await create(
                new_topic("plain", 5, configs=[{"name": "cleanup.policy", "value": "compact"}]),
                new_topic("defaults", -1, -1),
                new_topic("assigned", -1, -1, mine),
                new_topic("elsewhere", -1, -1, others),
                new_topic("both", 1, 1, mine),
                new_topic("orders"),
                new_topic("a b"),
                new_topic("none", 0),
                new_topic("negative", -2),
                new_topic("replicated", 1, 3),
                new_topic("twice"),
                new_topic("twice"),
            )
            assert {name: int(topic.error_code) for name, topic in results.items()} == {
                "plain": 0, "defaults": 0, "assigned": 0, "elsewhere": 39, "both": 42,
                "orders": 36, "a b": 17, "none": 37, "negative": 37, "replicated": 38,
                "twice": 42,
            }  # fmt: skip
            created = rig.catalogue.topics()
            assert {name: topic.partitions for name, topic in created.items()} == {
                "orders": 12, "plain": 5, "defaults": 1, "assigned": 2,
            }  # fmt: skip
            assert created["plain"].configs == {"cleanup.policy": "compact"}
            if v >= 7:
                assert results["plain"].topic_id == created["plain"].topic_id
            assert rig.node.topics[1][0] == "plain"
            dry = await create(new_topic("dry"), new_topic("orders"), validate_only=True)
            assert {name: topic.error_code for name, topic in dry.items()} == {
                "dry": 0, "orders": 36,
            }  # fmt: skip
            assert "dry" not in rig.catalogue.topics()

    run(main())


@versions(20)
def test_delete_topics(run, v):
    async def main():
        async with serving(topics={"a": 1, "b": 1}) as rig:
            client = await rig.connect()
            asked = [topic_named("a"), topic_named("nope")]
            if v >= 6:
                asked += [
                    topic_named(None, rig.catalogue.topics()["b"].topic_id),
                    topic_named(None, UNKNOWN_ID),
                    topic_named("a", UNKNOWN_ID),
                    topic_named(None, None),
                ]
            response = await ask(client, 20, v, topic_names=("a", "nope"), topics=asked, timeout=MS)
            codes = [int(result.error_code) for result in response.responses]
            assert codes == [0, 3] + [0, 100, 42, 42] * (v >= 6)
            assert sorted(rig.catalogue.topics()) == ["b"] * (v < 6)

    run(main())


@versions(37)
def test_create_partitions(run, v):
    async def main():
        async with serving(topics={"a": 2, "b": 2, "c": 2}) as rig:
            client = await rig.connect()

            async def grow(*topics, validate_only=False):
                response = await ask(
                    client, 37, v, timeout=MS, validate_only=validate_only,
                    topics=[
                        {"name": name, "count": count, "assignments": assignments}
                        for name, count, assignments in topics
                    ],
                )  # fmt: skip
                return {result.name: int(result.error_code) for result in response.results}

            one, other = [{"broker_ids": (1,)}], [{"broker_ids": (2,)}]
            assert await grow(("a", 4, None), ("nope", 4, None), ("b", 2, None)) == {
                "a": 0, "nope": 3, "b": 37,
            }  # fmt: skip
            assert await grow(("b", 3, other)) == {"b": 39}
            assert await grow(("b", 4, one)) == {"b": 39}
            assert await grow(("b", 3, one)) == {"b": 0}
            assert await grow(("c", 3, None), ("c", 4, None)) == {"c": 42}
            assert await grow(("c", 3, None), validate_only=True) == {"c": 0}
            assert {t.name: t.partitions for t in rig.catalogue.topics().values()} == {
                "a": 4, "b": 3, "c": 2,
            }  # fmt: skip

    run(main())


def test_describe_topic_partitions_by_the_page(run):
    async def main():
        async with serving(topics={"c": 2, "a": 3, "b": 1}) as rig:
            client = await rig.connect()

            async def describe(names=(), limit=2000, cursor=None):
                response = await ask(
                    client, 75, 0, topics=[{"name": name} for name in names],
                    response_partition_limit=limit, cursor=cursor,
                )  # fmt: skip
                assert {
                    (p.eligible_leader_replicas, p.last_known_elr, p.offline_replicas)
                    for topic in response.topics
                    for p in topic.partitions
                } <= {((), (), ())}
                found = [
                    (t.name, int(t.error_code), [p.partition_index for p in t.partitions])
                    for t in response.topics
                ]
                place = response.next_cursor
                return found, place and (place.topic_name, place.partition_index)

            whole = [("a", 0, [0, 1, 2]), ("b", 0, [0]), ("c", 0, [0, 1])]
            assert await describe() == (whole, None)
            assert await describe(["c", "nope"]) == ([whole[2], ("nope", 3, [])], None)
            pages, cursor = [], None
            while True:
                found, place = await describe(limit=2, cursor=cursor)
                pages.append(found)
                if place is None:
                    break
                cursor = {"topic_name": place[0], "partition_index": place[1]}
            assert pages == [
                [("a", 0, [0, 1])],
                [("a", 0, [2]), ("b", 0, [0])],
                [("c", 0, [0, 1])],
            ]

    run(main())


@versions(0)
def test_produce_fails_clearly(run, v):
    async def main():
        async with serving() as rig:
            client, silent = await rig.connect(), await rig.connect()
            known = rig.catalogue.topics()["orders"].topic_id
            fields = {
                "transactional_id": None,
                "timeout": MS,
                "topic_data": [
                    {
                        "name": "orders",
                        "topic_id": known,
                        "partition_data": [{"index": 0, "records": b""}],
                    }
                ],
            }
            response = await ask(client, 0, v, acks=-1, **fields)
            partition = response.responses[0].partition_responses[0]
            assert partition.error_code is ErrorCode.policy_violation
            if v >= 8:
                assert "keeps no records" in partition.error_message
            silent.send(encode(0, v, acks=0, **fields))
            assert await silent.closed()

    run(main())
