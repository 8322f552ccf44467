"""docs/kafka.md and docs/kafka-node.md from nothing, as an operator follows them: each command in
its order, on three brokers, while a group commits. Long: `make test-kafka`. That all commands are
commands is tested always."""

from __future__ import annotations

import contextlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from support.kafka.broker import KafkaBroker
from support.kafka.three import skip_unless_asked, three_brokers
from support.kafka.tools import tool
from support.pages import ROOT, commands_of
from support.ports import free_port
from support.server import PykcoordServer
from support.waiting import eventually

from pykcoord import cli
from pykcoord._native import partition_of

from .committing import Committing

WATCH, NODE = "docs/kafka.md", "docs/kafka-node.md"
_MOVED = "__consumer_offsets-9"
_WAIT_S = 120.0
_MINUTE_S = 60.0


@pytest.mark.parametrize("line", [*commands_of(WATCH), *commands_of(NODE)])
def test_commands_of_the_pages_are_commands(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called, *words = shlex.split(line)
    if called != "pykcoord":
        return
    monkeypatch.chdir(tmp_path)
    for name in ("history", "node100"):
        (tmp_path / name).mkdir()
    command: click.Command | None = cli.commands
    while isinstance(command, click.Group):
        called = words.pop(0)
        command = command.get_command(click.Context(command), called)
    assert command is not None, called
    command.make_context(called, words)


@pytest.mark.parametrize("page", [WATCH, NODE])
def test_commands_to_paste_stand_in_blocks(page: str) -> None:
    """Where the tests find them."""
    spans = re.findall(r"`([^`\n]*localhost[^`\n]*)`", (ROOT / page).read_text())
    assert spans == []


class _Operator:
    """Types the commands of a page, with the addresses of this machine in them, in one folder."""

    def __init__(self, folder: Path, bootstrap: str) -> None:
        self.folder = folder
        self.said = ""
        node, metrics, web = (str(free_port()) for _ in range(3))
        self._names = {
            "localhost:9092": bootstrap, ":9192": f":{node}", ":9465": f":{metrics}",
            ":8080": f":{web}",
        }  # fmt: skip

    def words(self, line: str) -> list[str]:
        for name, there in self._names.items():
            line = line.replace(name, there)
        return shlex.split(line)

    def types(self, line: str) -> str:
        """A command that ends; returns what it printed."""
        name, *rest = self.words(line)
        if name == "rm":
            shutil.rmtree(self.folder / rest[-1])
            return ""
        if name == "echo":
            text, _, file = rest
            (self.folder / file).write_text(f"{text}\n")
            return ""
        if name != "pykcoord":
            name = name.removeprefix("kafka-").removesuffix(".sh")
            return tool(name, *rest, folder=self.folder)
        done = subprocess.run(
            [sys.executable, "-m", name, *rest],
            cwd=self.folder, capture_output=True, text=True, timeout=_WAIT_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, (line, done.stderr)
        return done.stdout

    @contextmanager
    def keeps_running(self, line: str) -> Iterator[str]:
        """A command that stays; yields its first line, and ends it as Ctrl-C does."""
        command = [sys.executable, "-m", *self.words(line)]
        with subprocess.Popen(
            command, cwd=self.folder, stdout=subprocess.PIPE, text=True
        ) as process:
            try:
                assert process.stdout is not None
                yield process.stdout.readline()
            finally:
                process.send_signal(signal.SIGINT)
                status = process.wait(_WAIT_S)
        assert status == 0, line


def _is_at(node_id: int, said: str) -> bool:
    (line,) = [line for line in said.splitlines() if line.startswith("billing ")]
    return f"({node_id})" in line


@pytest.fixture(scope="module")
def brokers(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[KafkaBroker]]:
    """With Kafka's own number of partitions."""
    skip_unless_asked(pytestconfig)
    directory = tmp_path_factory.mktemp("three")
    with three_brokers(directory, offsets_topic_num_partitions="50") as started:
        admin = AdminClient({"bootstrap.servers": started[0].address})
        admin.create_topics([NewTopic("orders", 3, 3)])["orders"].result(60)
        yield started


@pytest.mark.java
@pytest.mark.client
@pytest.mark.timeout(600)
def test_from_nothing_to_a_led_partition_and_back(
    brokers: list[KafkaBroker], tmp_path: Path
) -> None:
    bootstrap = brokers[0].address
    assert partition_of("billing", 50) == 9, "as the page says"
    member = Committing(bootstrap, "billing", "orders")
    others = Committing(bootstrap, "billing-eu", "orders")
    try:
        member.go_on()
        others.go_on()
        operator = _Operator(tmp_path, bootstrap)
        _watch(operator)
        _lead(operator, member)
        assert member.stop() == member.acknowledged
    finally:
        others.stop()


@pytest.mark.java
@pytest.mark.client
@pytest.mark.timeout(600)
def test_a_topic_of_offsets_that_becomes_another_ends_the_node(
    brokers: list[KafkaBroker], tmp_path: Path
) -> None:
    """The last of these tests: groups of the cluster are gone after it."""
    bootstrap = brokers[0].address
    admin = AdminClient({"bootstrap.servers": bootstrap})
    first = Committing(bootstrap, "first", "orders")
    first.go_on()
    first.stop()
    node = PykcoordServer(
        tmp_path / "node", settings={"node.id": "110"},
        arguments=["--kafka", bootstrap, "--as", "node"],
    )  # fmt: skip
    node.start()
    more = admin.create_partitions([NewPartitions("__consumer_offsets", 52)])
    more["__consumer_offsets"].result(60)
    assert node.wait() == 1
    assert "has 52 partitions now, it had 50: start the node again" in node.stderr()
    with node.start():
        deleted = admin.delete_topics(["__consumer_offsets"])["__consumer_offsets"]
        with contextlib.suppress(KafkaException):  # it may have been asked through the node
            deleted.result(60)
        assert node.wait() == 1
    assert "was deleted: start the node again once it is made anew" in node.stderr()


def _watch(operator: _Operator) -> None:
    began = time.monotonic()
    for number, line in enumerate(commands_of(WATCH)):
        words = shlex.split(line)
        if words[1] == "watch" and "--once" not in words:
            with operator.keeps_running(line) as ready:
                assert ready.startswith("pykcoord ready watch="), line
                assert " mode=log groups=2 " in ready
            continue
        said = operator.types(line)
        assert words[0] == "rm" or "verify" in words or "compact" in words or "billing" in said
        if number == 0:
            assert time.monotonic() - began < _MINUTE_S
    assert not (operator.folder / "history").exists()


def _lead(operator: _Operator, member: Committing) -> None:
    """The commands in the order of the page; those that look, while the node leads."""
    began = time.monotonic()
    look, serve, plan, take, describe, give_back, unregister, remove, *more = commands_of(NODE)
    by_hand = [line for line in more if not line.startswith("pykcoord")]
    there, back = by_hand[:-3], by_hand[-3:]
    explains = [line for line in more if line not in by_hand]
    assert "billing " in operator.types(look)
    with operator.keeps_running(serve) as ready:
        assert re.match(
            r"pykcoord ready listen=\S+ node=100 cluster=\S+ shards=50 replicas=0", ready
        )
        (planned,) = [one for one in operator.types(plan).splitlines() if one.split()[0] == "9"]
        assert planned.endswith("1 classic: billing")
        assert not _is_at(100, operator.types(describe))
        assert operator.types(take) == "node 100 leads 1 partition: 9\n"
        assert time.monotonic() - began < 10 * _MINUTE_S
        member.go_on()
        assert _is_at(100, operator.types(describe))
        assert (member.assignments, _failures(member)) == (1, [])
        _second_member(operator)
        for line in explains:
            assert "joined" in operator.types(line), line
        member.go_on()
        before = (member.assignments, _failures(member))
        assert operator.types(give_back) == "brokers lead 1 partition: 9\n"
        member.go_on()
        assert not _is_at(100, operator.types(describe))
        assert (member.assignments, _failures(member)) == before
        _there_by_hand(operator, there)
        member.go_on()
        assert _is_at(100, operator.types(describe))
        _back_by_hand(operator, back)
        member.go_on()
        assert not _is_at(100, operator.types(describe))
        assert (member.assignments, _failures(member)) == before
        _there_by_hand(operator, there)
    _back_by_hand(operator, back)  # the node is not there
    member.go_on()
    assert member.assignments == before[0]
    assert "100 is no longer registered" in operator.types(unregister)
    assert "(100)" not in operator.types(describe)
    operator.types(remove)
    member.go_on()


def _there_by_hand(operator: _Operator, lines: list[str]) -> None:
    write, opens, moves, closes, is_there, elects = lines
    operator.types(write)
    assert "Completed updating config" in operator.types(opens)
    assert f"Successfully started partition reassignment for {_MOVED}" in operator.types(moves)
    assert "Completed updating config" in operator.types(closes)
    eventually(
        lambda: f"Reassignment of partition {_MOVED} is completed" in operator.types(is_there)
    )
    assert "Successfully completed leader election" in operator.types(elects)


def _back_by_hand(operator: _Operator, lines: list[str]) -> None:
    write, moves, is_back = lines
    operator.types(write)
    assert f"Successfully started partition reassignment for {_MOVED}" in operator.types(moves)
    eventually(
        lambda: f"Reassignment of partition {_MOVED} is completed" in operator.types(is_back)
    )


def _failures(member: Committing) -> list[str]:
    """A broker that loads says so, and librdkafka gives up the third time."""
    return [text for text in member.failures if "LOAD_IN" not in text]


def _second_member(operator: _Operator) -> None:
    """A rebalance, which commits may fail in."""
    second = Committing(operator._names["localhost:9092"], "billing", "orders")
    eventually(lambda: second.assignments > 0)
    second.stop()
