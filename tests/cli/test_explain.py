"""`pykcoord explain` over a real server and over a directory, and the topic that it reads."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from support.asked import LEAVE_GROUP, Asked
from support.nodes import Nodes
from support.ports import free_port
from support.server import PykcoordServer
from support.waiting import eventually

from pykcoord.cli.explain import _summary
from pykcoord.config import Config
from pykcoord.coordinator import Coordinator
from pykcoord.explain.report import Report
from pykcoord.explain.text import safe
from pykcoord.log.events import EVENTS_TOPIC, event_shards, read_events
from pykcoord.records import partition_of

from .conftest import Result

SECONDS = 60
# Markup, a quote, a newline, an escape sequence, a mark that turns the line, an emoji.
NAUGHTY = "<b>g</b>'\"\n\x1b[31m\u202egroup\u2066🦜"


def explained(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pykcoord", "explain", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)


def until_explained(*arguments: str, says: str) -> subprocess.CompletedProcess[str]:
    """Events are written within a quarter of a second or so. Over a directory a group may be told
    of before that, from the log of its offsets: what is asserted afterwards is to follow from what
    is waited for."""
    deadline = time.monotonic() + SECONDS
    while says not in (done := explained(*arguments)).stdout:
        assert time.monotonic() < deadline, f"{says!r} is not told; {done}"
        time.sleep(0.1)
    return done


def left(asked: Asked, group: str, member_id: str, reason: str) -> None:
    member = {"member_id": member_id, "group_instance_id": None, "reason": reason}
    asked.ask(LEAVE_GROUP, 5, group_id=group, members=[member])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PykcoordServer]:
    directory = tmp_path_factory.mktemp("explain") / "data"
    with PykcoordServer(directory, topics={"orders": 2}) as running:
        with Asked(running.address) as asked:
            for group in ("billing", NAUGHTY):
                joined = asked.join_alone(group)
                left(asked, group, joined.member_id, "scaled in\u202e")
            asked.join("fights", protocol="range")
            asked.join("fights", protocol="sticky")
        yield running


def test_a_running_server_tells_why(server: PykcoordServer) -> None:
    done = until_explained("billing", "--bootstrap-servers", server.address, says="scaled in")
    assert done.returncode == 0, done.stderr
    assert 'left. It says: "scaled in\\u202e".' in done.stdout
    assert "Nothing here needs to be done." in done.stdout


def test_something_to_act_on_is_exit_1_and_one_suggestion(server: PykcoordServer) -> None:
    done = until_explained("fights", "--bootstrap-servers", server.address, says="What to do")
    assert done.returncode == 1, done.stderr
    assert "INCONSISTENT_GROUP_PROTOCOL" in done.stdout
    assert done.stdout.count("partition.assignment.strategy") == 1
    as_json = explained("fights", "--bootstrap-servers", server.address, "--json")
    assert as_json.returncode == 1
    found = json.loads(as_json.stdout)
    assert [pattern["pattern"] for pattern in found["patterns"]] == ["protocols_differ"]
    assert not found["healthy"]


def test_a_quiet_group_is_healthy_and_one_that_is_not_known_an_error(
    server: PykcoordServer,
) -> None:
    address = ("--bootstrap-servers", server.address)
    until_explained("fights", *address, says="What to do")
    later = explained("fights", *address, "--since", "2999-01-01")
    assert (later.returncode, later.stderr) == (0, "")
    assert "nothing happened since 2999-01-01" in later.stdout
    assert explained("fights", *address, "--since", "2999-01-01", "--json").returncode == 0
    for form in ((), ("--json",)):
        nobody = explained("nobody", *address, *form)
        assert (nobody.returncode, nobody.stdout) == (1, "")
        assert "nothing that happened to it is kept" in nobody.stderr


def test_without_a_server_where_none_was_named_the_other_ways_are_told(
    monkeypatch: pytest.MonkeyPatch, pykcoord: Callable[..., Result]
) -> None:
    nobody = f"127.0.0.1:{free_port()}"
    monkeypatch.setattr("pykcoord.cli.explain._DEFAULT_SERVER", nobody)
    result = pykcoord("explain", "billing")
    assert (result.code, len(result.err.splitlines())) == (1, 1)
    assert f"pykcoord: {nobody}: Connection refused; is a server running there? " in result.err
    assert "a data directory is read by `pykcoord explain GROUP DIRECTORY`" in result.err
    named = pykcoord("explain", "billing", "--bootstrap-servers", nobody)
    assert named.err == f"pykcoord: {nobody}: Connection refused; is a server running there?\n"


def test_a_directory_is_read_while_it_is_served_and_lists_what_costs(
    server: PykcoordServer,
) -> None:
    directory = str(server.directory)
    done = until_explained("billing", directory, says="scaled in")
    assert (done.returncode, done.stderr) == (0, "")
    # Each group is of a log of its own.
    until_explained(NAUGHTY, directory, says="scaled in")
    until_explained("fights", directory, says="What to do")
    listed = explained(directory)
    assert listed.returncode == 1
    assert "protocols_differ" in listed.stdout
    asked = explained("--bootstrap-servers", server.address, "--json")
    groups = {one["group_id"] for one in json.loads(asked.stdout)["groups"]}
    assert groups == {"billing", "fights", NAUGHTY}


def test_names_from_clients_cannot_leave_their_line(server: PykcoordServer) -> None:
    until_explained("billing", "--bootstrap-servers", server.address, says="scaled in")
    for done in (
        explained(NAUGHTY, "--bootstrap-servers", server.address),
        explained("--bootstrap-servers", server.address),
        explained("no\nsuch\u202egroup", "--bootstrap-servers", server.address),
    ):
        for text in (done.stdout, done.stderr):
            assert not set(text) & set("\x1b\u202e\u2066\u200f"), text
    one_line = explained("no\nsuch\u202egroup", "--bootstrap-servers", server.address).stderr
    assert one_line.count("\n") == 1
    assert safe(NAUGHTY) == "<b>g</b>'\"\\u000a\\u001b[31m\\u202egroup\\u2066🦜"


def test_any_client_reads_the_topic(server: PykcoordServer) -> None:
    until_explained("billing", "--bootstrap-servers", server.address, says="scaled in")
    consumer = Consumer({
        "bootstrap.servers": server.address, "group.id": "reader", "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
    })  # fmt: skip
    try:
        listed = consumer.list_topics(timeout=SECONDS).topics
        assert EVENTS_TOPIC not in listed, "it is named only where it is asked for"
        partitions = consumer.list_topics(EVENTS_TOPIC, timeout=SECONDS).topics[EVENTS_TOPIC]
        assert len(partitions.partitions) == 5
        consumer.assign([TopicPartition(EVENTS_TOPIC, n, 0) for n in partitions.partitions])
        found: list[dict[str, Any]] = []
        deadline = time.monotonic() + SECONDS
        while not any(one["kind"] == "member_gone" for one in found):
            assert time.monotonic() < deadline, found
            message = consumer.poll(0.2)
            if message is not None:
                assert message.error() is None, message.error()
                value = json.loads(message.value())
                assert message.timestamp()[1] == value["timestamp_ms"]
                assert (message.key() or b"").decode() == value["group_id"]
                found.append(value)
    finally:
        consumer.close()


def test_a_server_without_such_a_topic_gets_a_hint(tmp_path: Path) -> None:
    off = {"group.events.enable": "false"}
    with PykcoordServer(tmp_path / "off", settings=off) as server:
        with Asked(server.address) as asked:
            asked.join_alone("billing")
        done = explained("billing", "--bootstrap-servers", server.address)
        assert done.returncode == 1
        assert "pykcoord watch" in done.stderr
        assert event_shards(server.directory) == []
        told = explained("billing", str(server.directory))
        assert told.returncode == 0
        assert "Told from the log of __consumer_offsets alone" in told.stdout
        assert "The group had no members, and" in told.stdout
        assert explained("nobody", str(server.directory)).returncode == 1


def test_what_is_kept_outlives_a_kill_and_damage(tmp_path: Path) -> None:
    server = PykcoordServer(tmp_path / "data")
    with server:
        with Asked(server.address) as asked:
            joined = asked.join_alone("billing")
        # Not `explain`: before there are events, it tells of the member from the offsets log.
        eventually(lambda: any(read_events(server.directory).values()))
        server.kill()
        (shard,) = event_shards(server.directory)
        (segment,) = (server.directory / f"{EVENTS_TOPIC}-{shard}").glob("*.log")
        data = segment.read_bytes()
        segment.write_bytes(data[: len(data) // 2] + b"\xff" * 64)
        server.start()
        with Asked(server.address) as asked:
            left(asked, "billing", joined.member_id, "after the crash")
        done = until_explained("billing", str(server.directory), says="after the crash")
        assert done.returncode == 0, done.stderr
        records = read_events(server.directory)[shard]
        assert [one.offset for one in records] == sorted({one.offset for one in records})


def test_a_log_of_events_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    server = PykcoordServer(tmp_path / "data")
    with server:
        for shard in range(5):
            (server.directory / f"{EVENTS_TOPIC}-{shard}").write_text("in the way")
        with Asked(server.address) as asked:
            joined = asked.join_alone("billing")
            assert asked.commit("billing", [("orders", 0, 1)], generation_id=1,
                                member_id=joined.member_id)  # fmt: skip
        deadline = time.monotonic() + SECONDS
        while "are not kept" not in server.stderr():
            assert time.monotonic() < deadline, server.stderr()
            time.sleep(0.05)


def test_each_of_several_nodes_tells_of_all_groups(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path / "data", {"orders": 2})
    try:
        nodes.start(2)
        groups = {partition_of(f"group-{n}", 5) % 2: f"group-{n}" for n in range(8)}
        addresses = [f"{host}:{port}" for host, port in nodes.addresses]
        for node, group in groups.items():
            with Asked(addresses[node]) as asked:
                asked.join_alone(group)
        for node, group in groups.items():
            for address in (addresses[node], addresses[1 - node]):
                done = until_explained(group, "--bootstrap-servers", address, says="joined")
                assert done.returncode == 0, done.stderr
    finally:
        nodes.close()


def test_a_coordinator_in_process_explains_itself(tmp_path: Path) -> None:
    with Coordinator(tmp_path, topics={"orders": 2}) as coordinator:
        with coordinator.join("billing", topics=["orders"]) as member:
            member.commit({("orders", 0): 1})
        found = coordinator.explain("billing")
        assert found["healthy"]
        assert any("joined" in line["text"] for line in found["story"])
    off = Config(group_initial_rebalance_delay_ms=0, group_events_enable=False)
    with Coordinator(tmp_path, config=off) as coordinator, pytest.raises(ValueError, match="keeps"):
        coordinator.explain("billing")


@pytest.mark.parametrize(
    ("unowned_ms", "abandoned_ms", "said"),
    [
        (0, 0, "."),
        (3_000, 0, "; partitions were without an owner for 3.0 s, all together."),
        (
            0, 420_000, "; partitions were without an owner for 7 min, all together, while the "
            "group had no members.",
        ),
        (
            3_000, 420_000, "; partitions were without an owner for 3.0 s, all together, and for "
            "7 min while the group had no members.",
        ),
    ],
)  # fmt: skip
def test_time_of_all_partitions_is_not_told_as_time_of_the_group(
    unowned_ms: int, abandoned_ms: int, said: str
) -> None:
    one: Any = SimpleNamespace(unowned_ms=unowned_ms, abandoned_ms=abandoned_ms)
    assert _summary(Report("billing", 5, [], [one])) == f"1 rebalance, 5 events{said}"
