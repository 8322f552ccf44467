"""A node in a real cluster of three, under load: taken, killed, taken again, the controller killed,
given back. Long: `make test-kafka`."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec
from support.console import Console
from support.kafka.broker import KafkaBroker
from support.kafka.three import skip_unless_asked, three_brokers
from support.kafka.tools import tool
from support.ports import free_port
from support.server import PykcoordServer

from pykcoord import cli
from pykcoord._native import partition_of
from pykcoord.kafka import ClientProperties, Cluster
from pykcoord.log.events import EVENTS_TOPIC
from pykcoord.node.joining import look_around
from pykcoord.node.moving import Mover

from .committing import Committing, JavaConsumer

pytestmark = [pytest.mark.java, pytest.mark.client, pytest.mark.timeout(1200)]

_PAGE = Path(__file__).parents[2] / "docs" / "kafka-node.md"
_ID = 99
_WAIT_S = 120.0


@pytest.fixture(scope="module")
def brokers(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[KafkaBroker]]:
    skip_unless_asked(pytestconfig)
    with three_brokers(tmp_path_factory.mktemp("three")) as started:
        _create(_bootstrap(started), "orders")
        first = Committing(_bootstrap(started), "first", "orders")
        first.go_on(3)
        first.stop()
        yield started


def _create(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 3, 3)])[topic].result(60)


def _bootstrap(brokers: list[KafkaBroker]) -> str:
    return ",".join(broker.address for broker in brokers)


def _node(brokers: list[KafkaBroker], directory: Path, node_id: int = _ID) -> PykcoordServer:
    settings = {"node.id": str(node_id)}
    joins = ["--kafka", _bootstrap(brokers), "--as", "node"]
    return PykcoordServer(directory, settings=settings, arguments=joins)


def _kafka(brokers: list[KafkaBroker], *words: str, node_id: int = _ID) -> int:
    asked = ["kafka", words[0], "--bootstrap-servers", _bootstrap(brokers), "--node", str(node_id)]
    return cli.run([*asked, *words[1:]])


def _leaders(brokers: list[KafkaBroker], node_id: int = _ID) -> set[int]:
    """Of all partitions of `__consumer_offsets`."""

    async def ask() -> set[int]:
        cluster = await Cluster.open(
            ClientProperties.of({"bootstrap.servers": _bootstrap(brokers)})
        )
        try:
            return {move.leader for move in await Mover(cluster, node_id).plan(None, takes=True)}
        finally:
            await cluster.close()

    return asyncio.run(ask())


def _active_controller(brokers: list[KafkaBroker]) -> int:
    text = tool(
        "metadata-quorum", "--bootstrap-server", _bootstrap(brokers),
        "describe", "--status",
    )  # fmt: skip
    (line,) = [line for line in text.splitlines() if line.startswith("LeaderId:")]
    return int(line.split()[1])


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _WAIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.5)


def _committed(brokers: list[KafkaBroker], group: str) -> int:
    admin = AdminClient({"bootstrap.servers": _bootstrap(brokers)})
    asked = [ConsumerGroupTopicPartitions(group, [TopicPartition("orders", 0)])]
    (future,) = admin.list_consumer_group_offsets(asked).values()
    offset: int = future.result(60).topic_partitions[0].offset
    return offset


def test_groups_go_on_through_all_that_happens_to_a_node(
    brokers: list[KafkaBroker], tmp_path: Path
) -> None:
    bootstrap = _bootstrap(brokers)
    members = [Committing(bootstrap, f"group-{one}", "orders") for one in range(4)]
    java = JavaConsumer(bootstrap, "java", "orders")
    node = _node(brokers, tmp_path / "node")
    with _ended(node, java, members):
        for one in (*members, java):
            one.go_on()
        assignments = [one.assignments for one in (*members, java)]
        node.start()
        assert _kafka(brokers, "take") == 0
        assert _leaders(brokers) == {_ID}
        for one in (*members, java):
            one.go_on()
        admin = AdminClient({"bootstrap.servers": bootstrap})
        (told,) = admin.describe_consumer_groups(["group-1"]).values()
        assert told.result(60).coordinator.id == _ID

        node.kill()
        for one in (*members, java):
            one.go_on()  # a broker coordinates
        assert _ID not in _leaders(brokers)

        node.start()
        assert _kafka(brokers, "take") == 0
        for one in (*members, java):
            one.go_on()
        controller = _active_controller(brokers)
        brokers[controller - 1].kill()
        for one in (*members, java):
            one.go_on()
        assert _leaders(brokers) == {_ID}
        brokers[controller - 1].start()

        assert node.stop() == 0  # a controlled shutdown
        for one in (*members, java):
            one.go_on()
        assert _ID not in _leaders(brokers)
        node.start()
        assert _kafka(brokers, "take") == 0
        assert _kafka(brokers, "return") == 0
        assert _ID not in _leaders(brokers)
        for one in (*members, java):
            one.go_on()
        assert [one.assignments for one in (*members, java)] == assignments, "nobody rebalanced"
        # A broker that takes long to load says so, and librdkafka gives up the third time.
        failed = [text for one in members for text in one.failures if "LOAD_IN" not in text]
        assert failed == []
        assert java.failed == 0
        for one in members:
            last = one.acknowledged
            assert one.stop() == one.acknowledged >= last
            assert _committed(brokers, one.group) == one.acknowledged
        assert not list((tmp_path / "node").glob("__consumer_offsets-*"))


@contextmanager
def _ended(
    node: PykcoordServer, java: JavaConsumer, members: Sequence[Committing]
) -> Iterator[None]:
    """All of them end in the end, and what they did is told if the test fails."""
    try:
        yield
    finally:
        java.stop()
        if node.running:
            node.stop()
        sys.stderr.write(node.stderr()[-6000:])
        sys.stderr.write(str({one.group: (one.acknowledged, one.slowest) for one in members}))


def _in_sync(brokers: list[KafkaBroker]) -> set[int]:
    """Who is in the ISR of all partitions of `__consumer_offsets`."""

    async def ask() -> set[int]:
        cluster = await Cluster.open(
            ClientProperties.of({"bootstrap.servers": _bootstrap(brokers)})
        )
        try:
            placed = await Mover(cluster, _ID)._placements()
            return set.intersection(*(set(isr) for _, _, isr in placed.values()))
        finally:
            await cluster.close()

    return asyncio.run(ask())


def test_brokers_are_restarted_one_after_the_other_under_load(
    brokers: list[KafkaBroker], tmp_path: Path
) -> None:
    bootstrap, everybody = _bootstrap(brokers), {1, 2, 3, 106}
    members = [Committing(bootstrap, f"rolling-{one}", "orders") for one in range(4)]
    java = JavaConsumer(bootstrap, "rolling-java", "orders")
    node = _node(brokers, tmp_path / "node", 106)
    with _ended(node, java, members):
        node.start()
        assert _kafka(brokers, "take", node_id=106) == 0
        for one in (*members, java):
            one.go_on()
        assignments = [one.assignments for one in (*members, java)]
        for at, broker in enumerate(brokers, 1):
            _until(lambda: _in_sync(brokers) == everybody)
            broker.stop()
            for one in (*members, java):
                one.go_on()
            broker.start()
            assert _leaders(brokers, 106) == {106}, at
        _until(lambda: _in_sync(brokers) == everybody)
        for one in (*members, java):
            one.go_on()
        assert [one.assignments for one in (*members, java)] == assignments, "nobody rebalanced"
        assert [text for one in members for text in one.failures] == []
        assert java.failed == 0
        for one in members:
            assert one.stop() == one.acknowledged
            assert _committed(brokers, one.group) == one.acknowledged
        assert _kafka(brokers, "return", node_id=106) == 0


def test_kafkas_tools_see_an_ordinary_cluster(brokers: list[KafkaBroker], tmp_path: Path) -> None:
    member = Committing(_bootstrap(brokers), "seen", "orders")
    member.go_on()
    with _node(brokers, tmp_path / "node", 101).start() as node:
        assert _kafka(brokers, "take", "--partitions", "0-4", node_id=101) == 0
        for address in (brokers[0].address, node.address):
            listed = tool("topics", "--bootstrap-server", address, "--describe")
            assert listed.count("Topic: __consumer_offsets\t") == 11
            groups = tool(
                "consumer-groups", "--bootstrap-server", address, "--describe", "--all-groups"
            )
            assert "seen" in groups
            assert "orders" in groups
            assert "first" in tool("consumer-groups", "--bootstrap-server", address, "--list")
            configured = tool(
                "configs", "--bootstrap-server", address, "--describe", "--all",
                "--entity-type", "topics", "--entity-name", "__consumer_offsets",
            )  # fmt: skip
            assert "cleanup.policy=compact" in configured
            reassigned = tool("reassign-partitions", "--bootstrap-server", address, "--list")
            assert "No partition reassignments found" in reassigned
            _see_a_transaction(brokers, address)
        told = tool(
            "metadata-quorum", "--bootstrap-server", node.address,
            "describe", "--replication",
        )  # fmt: skip
        assert "101 " in told
        assert "Observer" in told
        admin = AdminClient({"bootstrap.servers": node.address})
        for future in admin.create_topics([NewTopic("through", 4, 3)]).values():
            future.result(60)
        _until(lambda: "through" in admin.list_topics(timeout=30).topics)  # some broker says so
        member.go_on()
        assert _kafka(brokers, "return", node_id=101) == 0
        member.go_on()
    assert member.stop() == member.acknowledged
    assert [text for text in member.failures if "LOAD_IN" not in text] == []


def _see_a_transaction(brokers: list[KafkaBroker], address: str) -> None:
    """One that commits to a group that node 101 coordinates: while it is open, and then."""

    def producers() -> list[list[str]]:
        told = tool(
            "transactions", "--bootstrap-server", address, "describe-producers",
            "--topic", "__consumer_offsets", "--partition", str(number),
        )  # fmt: skip
        return [line.split() for line in told.splitlines()[1:]]

    bootstrap, name = _bootstrap(brokers), f"tool-{address.rpartition(':')[2]}"
    names = (f"{name}-{one}" for one in range(99))
    group, number = next((one, at) for one in names if (at := partition_of(one, 10)) < 5)
    before = len(producers())
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    producer.init_transactions(_WAIT_S)
    producer.begin_transaction()
    metadata = consumer.consumer_group_metadata()
    producer.send_offsets_to_transaction([TopicPartition("orders", 0, 7)], metadata, _WAIT_S)
    columns = producers()[-1]
    assert len(producers()) == before + 1
    assert columns[-1].isdigit(), columns  # CurrentTransactionStartOffset
    listed = tool("transactions", "--bootstrap-server", address, "list")
    (line,) = [line for line in listed.splitlines() if line.startswith(name)]
    assert line.split()[-1] == "Ongoing"
    hanging = tool(
        "transactions", "--bootstrap-server", address, "find-hanging", "--broker-id", "101",
        "--max-transaction-timeout", "0",
    )  # fmt: skip
    assert name not in hanging  # its coordinator knows of it
    producer.commit_transaction(_WAIT_S)
    _until(lambda: producers()[-1][-1] == "None")
    assert consumer.committed([TopicPartition("orders", 0)], _WAIT_S)[0].offset == 7
    consumer.close()


def _refused(brokers: list[KafkaBroker], directory: Path, *words: str) -> str:
    command = [
        sys.executable, "-m", "pykcoord", "serve", str(directory), "--kafka", _bootstrap(brokers),
        "--as", "node", "--listen", "127.0.0.1:0", *words,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=_WAIT_S, check=False)
    assert done.returncode == 1, done.stderr
    return done.stderr


def test_what_is_refused(brokers: list[KafkaBroker], tmp_path: Path) -> None:
    said = _refused(brokers, tmp_path / "one", "--set", "node.id=1")
    assert "node.id 1 is in use: the cluster has a controller 1" in said
    with _node(brokers, tmp_path / "node", 102).start() as node:
        taken = ["--listen", node.address, "--set", "node.id=108"]
        said = _refused(brokers, tmp_path / "three", *taken)
        assert f"pykcoord: --listen {node.address}: address already in use; take another" in said
        said = _refused(brokers, tmp_path / "two", "--set", "node.id=102")
        assert "node.id 102 is in use" in said
        said = _refused(brokers, tmp_path / "node", "--set", "node.id=102")
        assert "another process" in said or "in use" in said or "lock" in said
    said = _refused(brokers, tmp_path / "node", "--set", "node.id=7")
    assert "it is of node 102, not of node 7" in said
    (tmp_path / "node" / "node.json.tmp").mkdir()  # its epoch cannot be written down
    said = _refused(brokers, tmp_path / "node", "--set", "node.id=102")
    assert "node.json.tmp" in said.splitlines()[-1]
    assert "--listen" not in said
    (tmp_path / "node" / "node.json.tmp").rmdir()
    assert _kafka(brokers, "plan", "--partitions", "77", node_id=102) == 1
    file = tmp_path / "node" / "node.json"
    state = json.loads(file.read_text())
    file.write_text(json.dumps({**state, "cluster_id": "other"}))
    said = _refused(brokers, tmp_path / "node", "--set", "node.id=102")
    assert f"it is of cluster other, not of cluster {state['cluster_id']}: name another" in said


def test_a_node_that_was_killed_is_known_and_its_next_start_can_be_ended(
    brokers: list[KafkaBroker], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node = _node(brokers, tmp_path / "node", 107).start()
    node.kill()
    command = [
        sys.executable, "-m", "pykcoord", "serve", str(tmp_path / "node"), "--as", "node",
        "--kafka", _bootstrap(brokers), "--listen", "127.0.0.1:0", "--set", "node.id=107",
    ]  # fmt: skip
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as again:
        assert again.stderr is not None
        while "waiting until its session is over" not in again.stderr.readline():
            assert again.poll() is None
        began = time.monotonic()
        again.terminate()
        assert "SIGTERM: ending before it has joined" in again.stderr.read()
        assert (again.wait(_WAIT_S), time.monotonic() - began < 3.0) == (0, True)
    _until(lambda: 107 not in _up(brokers))
    assert _kafka(brokers, "plan", node_id=107) == 1
    assert "node 107 is registered (127.0.0.1:" in capsys.readouterr().err
    assert _kafka(brokers, "return", node_id=107) == 0
    tool("cluster", "unregister", "--bootstrap-server", _bootstrap(brokers), "--id", "107")
    unknown = "the cluster has no node 107 (it has 1, 2, 3): start it with"
    _until(lambda: _kafka(brokers, "plan", node_id=107) == 1 and unknown in capsys.readouterr().err)


def _up(brokers: list[KafkaBroker]) -> set[int]:
    admin = AdminClient({"bootstrap.servers": _bootstrap(brokers)})
    return set(admin.list_topics(timeout=_WAIT_S).brokers)


def test_replicas_of_other_topics_are_refused_in_the_open(
    brokers: list[KafkaBroker], tmp_path: Path
) -> None:
    async def assign() -> None:
        from pykcoord.node import moving

        properties = ClientProperties.of({"bootstrap.servers": _bootstrap(brokers)})
        cluster = await Cluster.open(properties)
        try:
            assert (await look_around(cluster)).controllers.keys() == {1, 2, 3}
            mover = Mover(cluster, 103)
            await mover.check_node()  # brokers hear of it one after the other
            move = moving.Move(0, (1, 2, 3), 1, (103, 1, 2))
            await mover._open_node(False)
            await mover._open_node(True)
            name, moving._NAME = moving._NAME, "orders"  # type: ignore[assignment]
            try:
                await mover._reassign_when_open([move])
                said = "orders-0 was assigned to node 103, which holds no records"
                _until(lambda: said in node.stderr())
            finally:
                moving._NAME = name
                await mover._open_node(False)
        finally:
            await cluster.close()

    with _node(brokers, tmp_path / "node", 103).start() as node:
        asyncio.run(assign())
        _until(lambda: node.running)


def test_metrics_are_those_of_the_page(brokers: list[KafkaBroker], tmp_path: Path) -> None:
    port = free_port()
    node = _node(brokers, tmp_path / "node", 104)
    node.arguments += ["--metrics", f"127.0.0.1:{port}"]
    with node.start(), urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        text = answer.read().decode()
    told = set(re.findall(r"^\| `(pykcoord_kafka_node_\w+)`", _PAGE.read_text(), re.MULTILINE))
    assert told == set(re.findall(r"^# TYPE (pykcoord_kafka_node_\w+) ", text, re.MULTILINE))


def test_lag_events_and_the_console_of_a_node(
    brokers: list[KafkaBroker], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bootstrap, web = _bootstrap(brokers), free_port()
    own, others = (
        next(name for one in range(99) if partition_of(name := f"seen-{one}", 10) in of)
        for of in (range(5), range(5, 10))
    )
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(30):
        producer.produce("orders", b"one", partition=number % 3)
    assert producer.flush(_WAIT_S) == 0
    node = _node(brokers, tmp_path / "node", 105)
    node.arguments += ["--web", f"127.0.0.1:{web}"]
    console = Console(f"http://127.0.0.1:{web}/")
    with node.start():
        assert _kafka(brokers, "take", "--partitions", "0-4", node_id=105) == 0
        members = [Committing(bootstrap, group, "orders") for group in (own, others)]
        for one in members:
            one.go_on()
        # One that reads nothing: as far behind as there are records.
        admin = AdminClient({"bootstrap.servers": bootstrap})
        behind = TopicPartition("orders", 0, 0)
        late = next(name for one in range(99) if partition_of(name := f"late-{one}", 10) < 5)
        asked = ConsumerGroupTopicPartitions(late, [behind])
        admin.alter_consumer_group_offsets([asked])[late].result(60)
        ends = admin.list_offsets({behind: OffsetSpec.latest()})[behind].result(60).offset
        assert ends >= 10

        assert console.get("/api/cluster")["controller"] == _active_controller(brokers)
        _until(lambda: {own, others} <= {
            one["id"] for one in console.get("/api/groups")["groups"]
        })  # fmt: skip
        _until(lambda: console.get("/api/group", id=late)["lag"] == ends)
        assert console.get("/api/group", id=own)["node"] == 105
        assert console.get("/api/group", id=others)["node"] != 105
        assert len(console.get("/api/group", id=others)["members"]) == 1
        assert console.ask("GET", "/readyz")[0] == 200

        def lag() -> float | None:
            found = re.search(
                rf'^pykcoord_group_lag{{group="{late}"}} (\S+)$',
                console.ask("GET", "/metrics")[2].decode(), re.MULTILINE,
            )  # fmt: skip
            return float(found[1]) if found else None

        _until(lambda: lag() == ends)

        # `explain` finds the node among the brokers, and reads the topic there.
        def explained() -> int:
            return cli.run(["explain", own, "--bootstrap-servers", brokers[0].address])

        _until(lambda: explained() == 0)
        assert "The group had no members, and " in capsys.readouterr().out
        assert EVENTS_TOPIC not in admin.list_topics(timeout=30).topics, "no broker has made it"
        for one in members:
            one.go_on()
        assert _kafka(brokers, "return", node_id=105) == 0
    for one in members:
        one.stop()
