"""`pykcoord zookeeper`: what is shown, written to a file, and taken into a data directory."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from kafka import KafkaConsumer, TopicPartition
from support.server import PykcoordServer

from pykcoord import Config, cli
from pykcoord._native import Node
from pykcoord.cli.zookeeper.importing import OffsetsSource
from pykcoord.log import LogReader, verify
from pykcoord.zookeeper import BadOffsetError, RegistrationError, ZooKeeperMember
from pykcoord.zookeeper.groups import export_lines, read_export

from .conftest import World
from .recordings import steps


class Result(NamedTuple):
    code: int
    out: str
    err: str


Run = Callable[..., Result]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: object) -> Result:
        code = cli.run(["zookeeper", *map(str, arguments)])
        return Result(code, *capsys.readouterr())

    return call


@pytest.fixture
def recorded(world: World) -> World:
    """The last step of the recorded `offsets`, loaded into the server, without its members."""
    step = steps("offsets")[-1]
    for path, data in step.data.items():
        if step.nodes[path]["ephemeral"] is None:
            world.client.ensure_path(path)
            if data is not None:
                world.client.set(path, data)
    return world


EXPORT = """/consumers/billing/offsets/orders/0:42
/consumers/billing/offsets/orders/11:7
/consumers/a:b/offsets/audit/0:9223372036854775807
"""


def _offsets(directory: Path) -> dict[tuple[str, str, int], int]:
    node = Node(Config().native(), 1, bytes(32))
    log = LogReader.open(directory)
    for partition in log.partitions:
        for chunk in log.read(partition):
            node.replay(0, chunk)
    return {(group, topic, number): at for group, topic, number, at, *_ in node.offsets(0)}


def test_a_file_becomes_a_directory(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "offsets.txt"
    file.write_text(EXPORT)
    result = run("import", file, tmp_path / "data", "--partitions", 3)
    assert result.code == 0, result.err
    assert "a file does not say which groups have members" in result.err
    assert "verified" in result.out
    assert verify(tmp_path / "data").sound
    assert _offsets(tmp_path / "data") == {
        ("billing", "orders", 0): 42,
        ("billing", "orders", 11): 7,
        ("a:b", "audit", 0): 2**63 - 1,
    }


def test_only_chosen_groups(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "offsets.txt"
    file.write_text(EXPORT)
    assert run("import", file, tmp_path / "data", "--group", "billing").code == 0
    assert {group for group, _, _ in _offsets(tmp_path / "data")} == {"billing"}
    result = run("import", file, tmp_path / "other", "--group", "nobody")
    assert (result.code, (tmp_path / "other").exists()) == (1, False)
    assert "no group 'nobody'" in result.err


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("orders 0 1", "is not /consumers/GROUP/offsets/TOPIC/PARTITION:OFFSET"),
        ("/consumers/g/offsets/t/0:many", "'many' is no offset"),
        ("/consumers/g/offsets/t/0:-1", "'-1' is no offset"),
        ("/consumers/g/offsets/t/999999999:1", "partitions; at most"),
        ("/consumers/g/offsets/t t/0:1", "no topic name"),
        ("/consumers/g/offsets/t/0:1:2", "'1:2' is no offset"),
    ],
)
def test_a_line_that_is_refused(run: Run, tmp_path: Path, line: str, reason: str) -> None:
    file = tmp_path / "offsets.txt"
    file.write_text("/consumers/g/offsets/t/0:1\n" + line + "\n")
    result = run("import", file, tmp_path / "data")
    assert result.code == 1
    assert reason in result.err.splitlines()[-1]
    assert str(file) in result.err.splitlines()[-1]
    assert [path.name for path in tmp_path.iterdir()] == ["offsets.txt"], "nothing half written"


def test_a_file_that_is_no_text(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "offsets.txt"
    file.write_bytes(b"/consumers/\xff/offsets/t/0:1\n")
    result = run("import", file, tmp_path / "data")
    assert (result.code, "line 1: is no UTF-8" in result.err) == (1, True)


def test_an_export_is_read_again() -> None:
    groups = read_export(EXPORT.splitlines(keepends=True), "x")
    assert sorted(export_lines(groups.values())) == sorted(EXPORT.splitlines(keepends=True))
    with pytest.raises(RegistrationError, match="x: line 1"):
        read_export(["/consumers/a/offsets/t/x:1"], "x")
    with pytest.raises(BadOffsetError, match="x: line 2"):
        read_export(["\n", "/consumers/a/offsets/t/1:x"], "x")


def test_batches_are_of_a_thousand_records() -> None:
    lines = (f"/consumers/g/offsets/t/{number}:1" for number in range(2_500))
    source = OffsetsSource(read_export(lines, "x"), 1, 5)
    assert len(list(source.read(0))) == 3


@pytest.mark.parametrize("connect", ["127.0.0.1:1", "nowhere.txt", "127.0.0.1:x/y"])
@pytest.mark.parametrize("command", ["state", "export", "import"])
def test_no_zookeeper_there(run: Run, tmp_path: Path, command: str, connect: str) -> None:
    target = [] if command == "state" else [tmp_path / "target"]
    result = run(command, connect, *target)
    assert (result.code, result.out) == (1, "")
    assert connect in result.err
    assert not (tmp_path / "target").exists()


@pytest.mark.java
def test_state_shows_members_owners_and_offsets(run: Run, world: World) -> None:
    topics = {"A": 1, "missing": 1}
    with ZooKeeperMember(world.connect, "billing", topics, consumer_id="c1") as member:
        member.commit({("A", 3): 42})
        world.client.create("/consumers/odd/ids/odd_1", b"no json", makepath=True)
        table = run("state", world.connect)
        document = run("state", world.connect, "--json", "--group", "billing")
    assert (table.code, document.code) == (1, 0)
    assert "/consumers/odd/ids/odd_1: no JSON" in table.err
    assert "billing: 1 member, 6 partitions owned, 1 offset" in table.out
    assert "billing_c1" in table.out
    group = json.loads(document.out)["groups"]["billing"]
    assert group["owners"]["A"]["5"] == "billing_c1-0"
    assert group["offsets"]["A"]["3"]["offset"] == 42
    assert "no such group" in run("state", world.connect, "--group", "other").err


@pytest.mark.java
def test_export_writes_what_import_reads(run: Run, recorded: World, tmp_path: Path) -> None:
    file = tmp_path / "offsets.txt"
    result = run("export", recorded.connect, file)
    assert (result.code, result.err) == (0, "")
    assert file.read_text() == (
        "/consumers/offsets/offsets/O/0:110\n/consumers/offsets/offsets/O/1:110\n"
    )
    recorded.client.set("/consumers/offsets/offsets/O/1", b"x")
    result = run("export", recorded.connect, tmp_path / "other.txt")
    assert result.code == 1
    assert "/consumers/offsets/offsets/O/1: 'x' is no offset; nothing was written" in result.err
    assert run("import", recorded.connect, tmp_path / "d", "--kafka-offsets", "take").code == 1
    assert [path.name for path in tmp_path.iterdir()] == ["offsets.txt"]


@pytest.mark.java
def test_a_group_whose_offsets_may_lie_in_kafka_is_refused(
    run: Run, recorded: World, tmp_path: Path
) -> None:
    result = run("import", recorded.connect, tmp_path / "data")
    assert result.code == 1
    assert "/brokers/topics/__consumer_offsets: this cluster has offsets in Kafka" in result.err
    assert not (tmp_path / "data").exists()


@pytest.mark.java
def test_a_group_with_live_members_is_refused(run: Run, world: World, tmp_path: Path) -> None:
    with ZooKeeperMember(world.connect, "billing", ["A"], consumer_id="c1") as member:
        member.commit({("A", 3): 42})
        world.client.create("/consumers/idle/offsets/B/0", b"5", makepath=True)
        refused = run("import", world.connect, tmp_path / "none")
        skipped = run("import", world.connect, tmp_path / "one", "--live-members", "skip")
        taken = run("import", world.connect, tmp_path / "two", "--live-members", "take")
    assert (refused.code, skipped.code, taken.code) == (1, 0, 0)
    assert "/consumers/billing/ids: 1 member of group 'billing' still there" in refused.err
    assert not (tmp_path / "none").exists()
    for name, groups in (("one", {"idle"}), ("two", {"idle", "billing"})):
        assert {group for group, _, _ in _offsets(tmp_path / name)} == groups


@pytest.mark.java
@pytest.mark.client
def test_a_client_resumes_where_the_group_was(run: Run, recorded: World, tmp_path: Path) -> None:
    directory = tmp_path / "data"
    result = run(
        "import", recorded.connect, directory, "--kafka-offsets", "take", "--partitions", 5
    )
    assert result.code == 0, result.err
    with PykcoordServer(directory) as server:
        consumer = KafkaConsumer(
            "O", bootstrap_servers=server.address, group_id="offsets", enable_auto_commit=False
        )
        try:
            while not consumer.assignment():
                consumer.poll(timeout_ms=500)
            assert [consumer.position(TopicPartition("O", n)) for n in (0, 1)] == [110, 110]
        finally:
            consumer.close(autocommit=False)
