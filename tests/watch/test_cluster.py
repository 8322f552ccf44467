"""A cluster that is read: brokers that speak nonsense, are too old, lag or are gone."""

from __future__ import annotations

import asyncio
import socket
import uuid
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from support.scripted_broker import ScriptedCluster

from pykcoord.cli import commands
from pykcoord.kafka import (
    ClientProperties,
    Cluster,
    ClusterView,
    Ends,
    NonsenseError,
    OldClusterError,
    UnreachableError,
)
from pykcoord.kafka.cluster import servers_of

pytestmark = pytest.mark.timeout(120)


def _properties(bootstrap: str, **more: str) -> ClientProperties:
    given = {name.replace("_", "."): value for name, value in more.items()}
    return ClientProperties.of({"bootstrap.servers": bootstrap, **given})


def _open(cluster: ScriptedCluster, **more: str) -> Any:
    async def story() -> None:
        async with cluster.running():
            opened = await Cluster.open(_properties(cluster.bootstrap, **more))
            await opened.close()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "it speaks HTTP"),
        (b"\x15\x03\x03\x00\x02\x02\x50", "set security.protocol=SSL"),
        (b"\xff\xff\xff\xff", "a frame of -1 bytes"),
        (b"\x7f\xff\xff\xff", "a frame of 2147483647 bytes"),
        (b"\0\0\0\x04\0\0\x13\x37", "a request that was not sent"),
        (b"\0\0\0\x06\0\0\0\x01\xff\xff", "cannot be read"),
    ],
)
def test_what_is_no_broker_is_told_by_what_it_says(raw: bytes, reason: str) -> None:
    cluster = ScriptedCluster()
    cluster.raw = raw
    with pytest.raises(NonsenseError, match=reason):
        _open(cluster)


def test_a_broker_that_says_nothing() -> None:
    cluster = ScriptedCluster()
    cluster.raw = b"\0"
    with pytest.raises(UnreachableError, match=r"no answer within 0\.3 s"):
        _open(cluster, request_timeout_ms="300")


def test_a_cluster_that_is_too_old_is_told_what_is_needed() -> None:
    cluster = ScriptedCluster()
    cluster.greatest = {3: 9}
    with pytest.raises(OldClusterError, match=r"Metadata v12 .* 0 to 9; Kafka 3\.1 or newer"):
        _open(cluster)


def test_servers_are_tried_one_after_the_other() -> None:
    async def story() -> None:
        cluster = ScriptedCluster()
        async with cluster.running():
            servers = f"127.0.0.1:1,{cluster.bootstrap}"
            opened = await Cluster.open(_properties(servers))
            assert opened.view.cluster_id == "scripted"
            await opened.close()
        with pytest.raises(UnreachableError, match=r"none answers \(Connect"):
            await Cluster.open(_properties("127.0.0.1:1,127.0.0.1:2"))

    asyncio.run(story())


@pytest.mark.parametrize("text", ["localhost", "localhost:", ":9092", "a:0", "a:70000", "a:1,"])
def test_addresses_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match="is not HOST:PORT"):
        servers_of(text)


@pytest.mark.parametrize("command", ["watch", "kafka plan --node 1"])
def test_an_address_without_a_port_is_told_as_wrong_usage(command: str) -> None:
    told = CliRunner().invoke(commands, [*command.split(), "--bootstrap-servers", "localhost"])
    assert told.exit_code == 2, told.exception
    assert "--bootstrap-servers: 'localhost' is not HOST:PORT" in told.output


def test_a_port_where_nobody_listens_is_told_in_the_words_of_the_system() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    with pytest.raises(UnreachableError) as raised:
        asyncio.run(Cluster.open(_properties(address)))
    assert str(raised.value) == f"{address}: Connection refused"


def test_addresses_of_ipv6() -> None:
    assert servers_of("[::1]:9092, b:1") == [("::1", 9092), ("b", 1)]


def _answer(brokers: int, topics: dict[str, tuple[uuid.UUID, dict[int, tuple[int, int]]]]) -> Any:
    none = SimpleNamespace(value=0)
    return SimpleNamespace(
        cluster_id="c",
        controller_id=1,
        brokers=[
            SimpleNamespace(node_id=one, host="h", port=one, rack=None)
            for one in range(1, brokers + 1)
        ],
        topics=[
            SimpleNamespace(
                name=name,
                topic_id=topic_id,
                error_code=none,
                partitions=[
                    SimpleNamespace(partition_index=at, leader_id=leader, leader_epoch=epoch)
                    for at, (leader, epoch) in partitions.items()
                ],
            )
            for name, (topic_id, partitions) in topics.items()
        ],
    )


def test_a_topic_is_deleted_when_two_brokers_lack_its_id() -> None:
    one = uuid.uuid4()
    view = ClusterView()
    view.take(_answer(2, {"orders": (one, {0: (1, 0)})}), 1, 0.0)
    view.take(_answer(2, {}), 1, 1.0)
    view.take(_answer(2, {}), 1, 2.0)  # the same broker again may lag
    assert "orders" in view.topics
    view.take(_answer(2, {"orders": (one, {0: (1, 0)})}), 2, 3.0)
    view.take(_answer(2, {}), 2, 4.0)
    assert "orders" in view.topics
    view.take(_answer(2, {}), 1, 5.0)
    assert "orders" not in view.topics
    assert view.deleted == {one: "orders"}


def test_an_answer_with_a_topic_that_cannot_be_told_of_deletes_nothing() -> None:
    one = uuid.uuid4()
    view = ClusterView()
    view.take(_answer(2, {"orders": (one, {0: (1, 0)})}), 1, 0.0)
    partial = _answer(2, {"other": (uuid.uuid4(), {})})
    partial.topics[0].error_code.value = 5
    for node_id in (1, 2, 1, 2):
        view.take(partial, node_id, 1.0)
    assert "orders" in view.topics


def test_the_name_with_another_id_is_another_topic() -> None:
    one, other = uuid.uuid4(), uuid.uuid4()
    view = ClusterView()
    view.take(_answer(1, {"orders": (one, {0: (1, 5), 1: (1, 5)})}), 1, 0.0)
    view.take(_answer(1, {"orders": (other, {0: (1, 0)})}), 1, 1.0)
    assert view.topics["orders"].topic_id == other
    assert list(view.topics["orders"].leaders) == [0]


def test_a_broker_that_lags_moves_no_leader_back() -> None:
    one = uuid.uuid4()
    view = ClusterView()
    view.take(_answer(2, {"orders": (one, {0: (2, 7)})}), 1, 0.0)
    assert not view.take(_answer(2, {"orders": (one, {0: (1, 6)})}), 2, 1.0)
    assert view.leader("orders", 0) == (2, 7)
    assert view.take(_answer(2, {"orders": (one, {0: (-1, 8)})}), 2, 2.0)
    assert view.leader("orders", 0) == (-1, 8)


def test_ends_keep_their_age_where_a_leader_does_not_answer() -> None:
    async def story() -> None:
        cluster = ScriptedCluster(brokers=2)
        cluster.add_topic("orders", 2, leaders=[1, 2])
        cluster.partition("orders", 0).start = 5
        cluster.partition("orders", 1).start = 7
        async with cluster.running():
            opened = await Cluster.open(_properties(cluster.bootstrap))
            ends = Ends(opened)
            await ends.refresh(["orders", "unknown"])
            before = dict(ends.known)
            assert {place: end.offset for place, end in before.items()} == {
                ("orders", 0): 5, ("orders", 1): 7
            }  # fmt: skip
            await cluster.stop(2)
            cluster.partition("orders", 0).start = 6
            await ends.refresh(["orders"])
            assert ends.known["orders", 0].offset == 6
            assert ends.known["orders", 1] == before["orders", 1]
            assert ends.errors == 1
            await opened.close()

    asyncio.run(story())


def test_an_answer_that_is_none_closes_the_connection_and_ends_keep_their_age() -> None:
    async def story() -> None:
        cluster = ScriptedCluster()
        cluster.add_topic("orders", 1)
        cluster.partition("orders", 0).start = 7
        async with cluster.running():
            opened = await Cluster.open(_properties(cluster.bootstrap))
            ends = Ends(opened)
            await ends.refresh(["orders"])
            before = dict(ends.known)
            control = await opened.control(1)
            next_id = (control._correlation_id + 1).to_bytes(4, "big")
            cluster.raw = b"\0\0\0\x06" + next_id + b"\xff\xff"
            await ends.refresh(["orders"])
            assert (ends.known, ends.errors) == (before, 1)
            assert not control.is_usable
            await opened.close()

    asyncio.run(story())


def test_a_fault_of_those_who_are_told_is_no_silence(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        cluster = ScriptedCluster()
        async with cluster.running():
            opened = await Cluster.open(_properties(cluster.bootstrap))

            def fail() -> None:
                raise RuntimeError("a fault")

            opened.on_change.append(fail)
            cluster.add_topic("orders", 1)
            await asyncio.wait_for(opened.refreshed(), 60)
            assert "a fault" in str(opened.failure)
            await opened.close()

    asyncio.run(story())
    assert "a fault" in caplog.text
