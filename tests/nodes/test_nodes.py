"""`serve --nodes N`: who serves what, faults of nodes and supervisor, another N, bad options."""

from __future__ import annotations

import asyncio
import datetime
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from support import faulty
from support.busy import Waits
from support.hosting import commit_fields
from support.kio_client import decode, encode
from support.nodes import Nodes
from support.ports import free_port
from support.probe import Probe

from pykcoord._native import partition_of
from pykcoord.catalogue import TopicCatalogue, stored_topics
from pykcoord.cli.nodes.node import _LedTopics
from pykcoord.errors import LogLockedError
from pykcoord.log import Append, LogDirectory
from pykcoord.log.lock import DirectoryLock
from pykcoord.log.state_file import StateFile

pytestmark = [pytest.mark.client, pytest.mark.crash]

SHARDS = 5
GROUPS = {partition_of(f"g{n}", SHARDS): f"g{n}" for n in range(60)}  # one of each shard
NOT_COORDINATOR, NOT_CONTROLLER = 16, 41
# Of a gap in acknowledged commits, without what nodes and probes wait for a processor; and what
# else a busy machine may add.
GONE_S, SLACK_S = 1.0, 0.5
SECOND = datetime.timedelta(seconds=1)


def ask(address: tuple[str, int], key: int, version: int, /, **fields: Any) -> Any:
    with socket.create_connection(address, 60) as at:
        at.sendall(encode(key, version, **fields))
        content = b""
        while len(content) < 4 or len(content) < 4 + struct.unpack_from(">i", content)[0]:
            more = at.recv(65536)
            assert more, "closed"
            content += more
    return decode(key, version, content[4:])


def topics_at(address: tuple[str, int]) -> dict[str, int]:
    response = ask(address, 3, 7, topics=None, allow_auto_topic_creation=False)
    return {topic.name: len(topic.partitions) for topic in response.topics}


def committing(nodes: Nodes, acknowledged: dict[str, int] | None = None) -> dict[int, Probe]:
    """Commits for a group of each shard, by shard; what was acknowledged before is looked for."""
    probes = {shard: Probe(group, lambda: nodes.addresses) for shard, group in GROUPS.items()}
    for probe in probes.values():
        probe.acknowledged = probe.tried = (acknowledged or {}).get(probe.group_id, -1)
        probe.start()
    return probes


def wait_committed(nodes: Nodes, probes: list[Probe], times: int = 5) -> None:
    last = [len(probe.times) for probe in probes]

    def went_on() -> bool:
        return all(len(p.times) >= at + times for p, at in zip(probes, last, strict=True))

    nodes.wait(went_on, f"{times} commits of {[probe.group_id for probe in probes]}")


def stopped(probes: dict[int, Probe]) -> dict[str, int]:
    """Ends them; what was acknowledged last, by group. Nothing acknowledged was missing."""
    for probe in probes.values():
        probe.stop()
    assert [probe.lost for probe in probes.values()] == [[]] * len(probes)
    return {probe.group_id: probe.acknowledged for probe in probes.values()}


def test_each_node_serves_its_shards_and_knows_all_topics(new_nodes: Callable[..., Nodes]) -> None:
    metrics = free_port(adjacent=1)
    nodes = new_nodes().start(2, "--metrics", f"127.0.0.1:{metrics}")
    first, second = nodes.addresses
    said = {one["node"]: one["message"] for one in nodes.events("node_ready")}
    assert f": led=3 shards={SHARDS} " in said[1]
    assert f": led=2 shards={SHARDS} " in said[2]
    metadata = [ask(address, 3, 7, topics=(), allow_auto_topic_creation=False)
                for address in nodes.addresses]  # fmt: skip
    assert [{(b.node_id, b.host, b.port) for b in told.brokers} for told in metadata] == (
        [{(1, *first), (2, *second)}] * 2
    )
    assert [told.controller_id for told in metadata] == [1, 1]
    for shard, group in GROUPS.items():
        for number, address in enumerate(nodes.addresses):
            found = ask(address, 10, 2, key=group, key_type=0)
            assert (found.host, found.port) == nodes.addresses[shard % 2]
            response = ask(address, 8, 7, **commit_fields(group, 1))
            code = response.topics[0].partitions[0].error_code
            assert code == (0 if number == shard % 2 else NOT_COORDINATOR)

    partitions = [{"partition_index": 0, "timestamp": -1, "max_num_offsets": 1,
                   "current_leader_epoch": -1}]  # fmt: skip
    topics = [{"name": "orders", "partitions": partitions}]
    latest = {"replica_id": -1, "isolation_level": 0, "topics": topics}
    ask(nodes.addresses[max(GROUPS) % 2], 8, 7, **commit_fields(GROUPS[max(GROUPS)], 4711))
    ends = [ask(address, 2, 5, **latest).topics[0].partitions[0] for address in nodes.addresses]
    assert [end.offset for end in ends] == [4711, 4711]

    admin = AdminClient({"bootstrap.servers": "{}:{}".format(*second), "log_level": 0})
    admin.create_topics([NewTopic("made", 3, 1)])["made"].result(60)
    known = [{"orders": 6, "made": 3}] * 2
    nodes.wait(  # one that is slow to read them is not waited for by the request
        lambda: [topics_at(address) for address in nodes.addresses] == known, "all know the topic"
    )
    topic = {"name": "other", "num_partitions": 1, "replication_factor": 1,
             "assignments": (), "configs": ()}  # fmt: skip
    fields = {"topics": [topic], "timeout": SECOND, "validate_only": False}
    assert ask(second, 19, 4, **fields).topics[0].error_code == NOT_CONTROLLER
    since = nodes.kill(1)  # and what it changed stays
    nodes.wait_started_again(1, since)
    assert ask(first, 19, 4, **fields).topics[0].error_code == 0
    nodes.wait(
        lambda: [topics_at(address).get("other") for address in nodes.addresses] == [1, 1],
        "all know the other topic",
    )

    texts = [
        urllib.request.urlopen(f"http://127.0.0.1:{metrics + number}/metrics").read().decode()
        for number in (0, 1)
    ]
    for name, values in (("shards_led", "32"), ("shards_away", "00"), ("node_starts_total", "21")):
        found = [re.search(rf"^pykcoord_{name} (\d)\.0$", text, re.MULTILINE) for text in texts]
        assert [one and one[1] for one in found] == list(values), name
    assert nodes.end() == 0
    # One process can serve all of it again.
    with LogDirectory.open(nodes.directory, partitions=SHARDS) as log:
        assert all(log.next_offset(shard) > 0 for shard in range(SHARDS))


def test_topics_are_stored_and_told_to_the_others_beside_the_loop(tmp_path: Path) -> None:
    """The node that changes them once served nobody until the others had read them."""
    file = StateFile(tmp_path / "catalogue.json")
    told: list[tuple[bool, set[str]]] = []

    def tell() -> None:
        is_beside = threading.current_thread() is not threading.main_thread()
        told.append((is_beside, {topic.name for topic in stored_topics(file)}))

    async def main() -> None:
        topics = TopicCatalogue({"a": 1}, _LedTopics(file, tell))
        with topics.gathered() as changes:
            topics.create("b", 1)
        topics.store_soon()
        assert set(topics.topics()) == {"a"}
        await changes.ended()
        assert set(topics.topics()) == {"a", "b"}

    asyncio.run(main())
    assert told[-1] == (True, {"a", "b"})


def test_the_others_serve_on_while_one_hangs(new_nodes: Callable[..., Nodes]) -> None:
    nodes = new_nodes({"pykcoord.node.hang.timeout.ms": "4000"}).start(3)
    probes = committing(nodes)
    wait_committed(nodes, list(probes.values()))
    others = [probe for shard, probe in probes.items() if shard % 3 != 1]
    hanging = [probe for shard, probe in probes.items() if shard % 3 == 1]
    nodes.send(2, signal.SIGSTOP)
    counts = [len(probe.times) for probe in hanging]
    wait_committed(nodes, others)
    committed = [len(probe.times) for probe in hanging]
    # One commit each may have been answered before the signal was seen. A machine that is so busy
    # that the node is started again meanwhile shows nothing.
    assert nodes.events("node_ended", 2) or all(
        now <= at + 1 for now, at in zip(committed, counts, strict=True)
    )
    nodes.wait_started_again(2, 1)
    wait_committed(nodes, list(probes.values()))
    assert {line["node"] for line in nodes.events("node_ended")} == {2}
    stopped(probes)


def test_a_node_that_is_killed_serves_again_soon_and_the_others_do_not_notice(
    new_nodes: Callable[..., Nodes],
) -> None:
    nodes = new_nodes().start(2)
    probes = committing(nodes)
    wait_committed(nodes, list(probes.values()))
    since = Waits(lambda: [*nodes.pids.values()])
    before = nodes.kill(2)
    nodes.wait_started_again(2, before)
    wait_committed(nodes, list(probes.values()))
    since.close()
    gaps = {
        shard: max(end - at - since.within(at, end) for at, end in probe.gaps(since.at))
        for shard, probe in probes.items()
    }
    assert max(gaps.values()) < GONE_S + SLACK_S, gaps
    assert max(gap for shard, gap in gaps.items() if shard % 2 == 0) < GONE_S, gaps
    stopped(probes)


def test_a_fault_of_the_code_in_a_node_ends_it_and_it_is_started_again(
    new_nodes: Callable[..., Nodes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in faulty.environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    nodes = new_nodes().start(2)
    probes = committing(nodes)
    wait_committed(nodes, list(probes.values()))
    for number, fault in enumerate(("turn", "appended"), 1):
        faulty.strike(tmp_path, fault)  # in one of the two
        nodes.wait(lambda n=number: len(nodes.events("node_ready")) == 2 + n, "it is there again")
        ended = nodes.events("node_ended")[-1]
        assert ended["code"] == 1
        assert f"a fault in {fault}" in ended["error"], ended
        assert "start it again" in ended["error"], ended
        wait_committed(nodes, list(probes.values()))
    assert nodes.events("node_hangs") == []
    stopped(probes)


def test_another_number_of_nodes_serves_the_same(new_nodes: Callable[..., Nodes]) -> None:
    nodes = new_nodes()
    acknowledged: dict[str, int] = {}
    for count in (1, 3, 2):
        nodes.start(count)
        assert nodes.ready["nodes"] == str(count) == str(len(nodes.addresses))
        assert nodes.ready["groups"] == str(len(acknowledged))
        probes = committing(nodes, acknowledged)
        wait_committed(nodes, list(probes.values()))
        acknowledged = stopped(probes)
        if count == 3:
            nodes.kill(2)
            nodes.wait(lambda: bool(nodes.events("node_ended", 2)), "the end of node 2")
        assert nodes.end() == 0


def test_nodes_end_when_their_supervisor_is_killed(new_nodes: Callable[..., Nodes]) -> None:
    nodes = new_nodes().start(2)
    probes = committing(nodes)
    wait_committed(nodes, list(probes.values()))
    assert nodes.end(signal.SIGKILL) == -signal.SIGKILL
    nodes.wait(lambda: is_free(nodes.directory), "the end of the nodes")
    acknowledged = stopped(probes)
    nodes.wait(
        lambda: "the supervisor is gone: ending" in [line["message"] for line in nodes.said],
        "they say why",
    )
    probes = committing(nodes.start(2), acknowledged)
    wait_committed(nodes, list(probes.values()))
    stopped(probes)


def is_free(directory: Path) -> bool:
    try:
        DirectoryLock.take(directory).close()
    except LogLockedError:
        return False
    return True


def test_a_directory_that_is_taken_away_ends_all(new_nodes: Callable[..., Nodes]) -> None:
    nodes = new_nodes().start(2)
    nodes.directory.rename(nodes.directory.with_name("moved"))
    assert nodes.wait_ended() == 1
    assert not nodes.directory.exists()
    nodes.wait(lambda: "was moved away" in "".join(nodes.other_lines), "the reason")


def served(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pykcoord", "serve", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_what_cannot_be_is_refused_in_one_line(tmp_path: Path) -> None:
    port = free_port(adjacent=1)
    listen = ["--listen", f"127.0.0.1:{port}"]
    for options, code, reason in (
        (["--nodes", 0], 2, "'--nodes'"),
        (["--nodes", 51], 2, "--nodes 51: at most 50, a shard for each"),
        (["--nodes", 2, "--listen", "127.0.0.1:65535"], 2, "need the ports up to 65536"),
        (["--nodes", 2, "--metrics", f"127.0.0.1:{port + 1}", *listen], 2, f"port {port + 1} is"),
    ):
        ended = served(tmp_path / "data", *options)
        assert (ended.returncode, ended.stderr.count("\n")) == (code, 1), ended.stderr
        assert reason in ended.stderr
    with socket.create_server(("127.0.0.1", port + 1)):
        ended = served(tmp_path / "data", "--nodes", 2, "--set", "node.id=7", *listen)
    assert ended.stderr == (
        f"pykcoord: --listen 127.0.0.1:{port} with --nodes 2: node 8 cannot have port {port + 1}: "
        "it is in use. End what listens there, or give another first port (the nodes take "
        f"{port} to {port + 1}), or 0 for free ones\n"
    )
    assert ended.returncode == 1
    assert not (tmp_path / "data").exists()


# A supervisor whose lines take their time; those of its nodes do not.
_SLOW_LINES = """
import sys, time
from pykcoord import cli
from pykcoord.cli import logs
writer = logs._writer
def slow():
    write = writer()
    return lambda line: (time.sleep(0.2), write(line))
logs._writer = slow
sys.exit(cli.run(sys.argv[1:]))
"""


def test_the_supervisor_says_that_it_ends_before_its_nodes_do(tmp_path: Path) -> None:
    serve = ["serve", str(tmp_path / "data"), "--nodes", "2", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(
        [sys.executable, "-c", _SLOW_LINES, *serve],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as supervisor:  # fmt: skip
        assert supervisor.stdout is not None
        assert supervisor.stdout.readline().startswith("pykcoord ready nodes=2 ")
        supervisor.send_signal(signal.SIGINT)
        _, told = supervisor.communicate(timeout=60)
    ends = [line.split(": ", 1)[0].split()[-1] for line in told.splitlines() if ": ending" in line]
    assert (ends[0], len(ends)) == ("pykcoord.nodes", 3), told


def test_nothing_begins_where_one_node_cannot(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    with LogDirectory.open(directory, partitions=SHARDS) as log:
        committed = threading.Semaphore(0)
        for offset in range(3):
            log.append([Append(3, offset, 1, 5, 5, b"x")], lambda *_: committed.release())
            assert committed.acquire(timeout=60)
    properties = (directory / "pykcoord.properties").read_text()
    name = "offsets.topic.num.partitions"
    options = ["--nodes", 3, "--listen", "127.0.0.1:0", "--set", f"{name}={SHARDS}"]
    ended = served(directory, *options)
    assert ended.returncode == 1
    assert f"pykcoord: {directory}: offset 0: record 0" in ended.stderr  # "x" is no record
    assert (directory / "pykcoord.properties").read_text() == properties
    lock = DirectoryLock.take(directory)
    ended = served(directory, *options)
    lock.close()
    assert (ended.returncode, ended.stderr.count("\n")) == (1, 1), ended.stderr
    assert "in use by process" in ended.stderr
