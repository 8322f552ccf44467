"""`pykcoord serve --cluster`: nodes as processes over one folder, faults, and what clients see."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from support.asked import Asked
from support.hosting import commit_fields
from support.kio_client import decode, encode
from support.members import GROUPS, SHARDS, Members, gap, served_again, spread
from support.probe import Probe

from pykcoord.cli import commands

pytestmark = [pytest.mark.client, pytest.mark.crash]

NOT_COORDINATOR = 16
# Of a gap in acknowledged commits, without what nodes and probes wait for a processor. The design's
# bounds are 1 s for a process that is gone and 2.5 s for one that is silent; disks are busy too.
GONE_S, SILENT_S, HANDOVER_S = 1.5, 3.0, 1.0


def ask(at: tuple[str, int], key: int, version: int, /, **fields: Any) -> Any:
    with socket.create_connection(at, 60) as connected:
        return exchange(connected, key, version, **fields)


def exchange(at: socket.socket, key: int, version: int, /, **fields: Any) -> Any:
    at.sendall(encode(key, version, **fields))
    return answer(at, key, version)


def answer(at: socket.socket, key: int, version: int, /) -> Any:
    with at.makefile("rb") as stream:
        (size,) = struct.unpack(">i", stream.read(4))
        return decode(key, version, stream.read(size))


def fetched(group: str) -> dict[str, Any]:
    topics = [{"name": "orders", "partition_indexes": (0,)}]
    return {"group_id": group, "topics": topics, "require_stable": False}


def coordinator(members: Members, group: str, by: int) -> int:
    """The node that this one names."""
    at = ("127.0.0.1", members.ports[by])
    found = ask(at, 10, 2, key=group, key_type=0)
    return int(found.node_id) if found.error_code == 0 else -1


def group_at(members: Members, node: int) -> str:
    """A group that this node serves, as node 1 knows too. It stays there: all is spread."""
    led = spread(members).node(node)
    assert led is not None
    group = GROUPS[min(led.shards)]
    at = ("127.0.0.1", members.ports[node])
    members.wait(
        lambda: (
            coordinator(members, group, 1) == node
            and ask(at, 9, 7, **fetched(group)).error_code == 0
        ),
        f"node {node} serves {group}",
    )
    return group


def test_shards_are_spread_over_all_nodes_and_each_names_the_same(
    members: Members, probes: list[Probe]
) -> None:
    def named(by: int) -> list[int]:
        return [coordinator(members, group, by) for group in GROUPS.values()]

    led = {shard: one.node_id for one in spread(members).nodes for shard in one.shards}
    leaders = [led[shard] for shard in GROUPS]
    for node in members.ports:
        members.wait(lambda node=node: named(node) == leaders, f"node {node} names them")
    told = CliRunner().invoke(commands, ["cluster", "state", str(members.folder), "--json"])
    state = json.loads(told.output)
    assert led == {
        int(shard): node["node_id"] for node in state["nodes"] for shard in node["shards"]
    }
    assert [node["port"] for node in state["nodes"]] == [*members.ports.values()]
    assert (state["shards"], state["unled"]) == (SHARDS, [])
    text = CliRunner().invoke(commands, ["cluster", "state", str(members.folder)]).output
    assert f"node 1 at 127.0.0.1:{members.ports[1]}, controller: 2 shards" in text


@pytest.mark.parametrize("node", [1, 2])  # the controller, and another
def test_kill_9_moves_the_groups_of_a_node_and_it_comes_back(
    members: Members, probes: list[Probe], node: int
) -> None:
    since = members.watched_from_now()
    members.kill(node)
    served_again(members, probes)
    assert gap(probes, since) < GONE_S + (SILENT_S if node == 1 else 0)
    members.start(node)
    served_again(members, probes)


def test_connections_to_nodes_that_are_gone_are_closed(tmp_path: Path) -> None:
    members = Members(tmp_path, 2)

    def sockets() -> int:
        """Of node 1, which has asked node 2 as its controller, and for ends of partitions."""
        with Asked(f"127.0.0.1:{members.ports[1]}") as asked:
            partitions = [{"partition_index": 0, "timestamp": -1}]
            topics = [{"name": "orders", "partitions": partitions}]
            asked.ask(2, 1, replica_id=-1, topics=topics)
            folder = Path(f"/proc/{members.processes[1].pid}/fd")
            links = [os.readlink(one) for one in folder.iterdir()]
        return sum(link.startswith("socket:") for link in links)

    try:
        members.start_all()
        before = sockets()
        for _ in range(3):
            members.kill(2)
            members.start(2)
            members.wait_known()
        members.wait(lambda: sockets() <= before, f"no more than {before} sockets")
    finally:
        members.close()


def test_a_node_that_hangs_is_fenced_and_begins_anew(members: Members, probes: list[Probe]) -> None:
    group = group_at(members, 2)
    (probe,) = [one for one in probes if one.group_id == group]
    since = members.watched_from_now()
    with socket.create_connection(("127.0.0.1", members.ports[2]), 60) as asleep:
        assert exchange(asleep, 9, 7, **fetched(group)).error_code == 0
        members.processes[2].send_signal(signal.SIGSTOP)
        served_again(members, probes)
        assert gap(probes, since) < SILENT_S
        acknowledged = probe.acknowledged
        asleep.sendall(encode(9, 7, **fetched(group)))
        members.processes[2].send_signal(signal.SIGCONT)
        woken = answer(asleep, 9, 7)
        if woken.error_code == 0:
            assert woken.topics[0].partitions[0].committed_offset >= acknowledged
    members.wait(lambda: any("fenced" in line for line in members.lines[2]), "it says so")
    served_again(members, probes)


def test_a_node_that_is_cut_off_from_the_store_answers_no_reads(
    members: Members, probes: list[Probe]
) -> None:
    """What another node has acknowledged meanwhile it does not know."""
    group = group_at(members, 2)
    at = ("127.0.0.1", members.ports[2])
    since = members.watched_from_now()
    members.cut_from_store(2)
    members.wait(lambda: coordinator(members, group, 1) in (1, 3), "another node leads")
    members.wait(
        lambda: (
            ask(members.addresses[0], 9, 7, **fetched(group)).error_code == 0
            or ask(members.addresses[2], 9, 7, **fetched(group)).error_code == 0
        ),
        "another node answers",
    )
    assert ask(at, 9, 7, **fetched(group)).error_code == NOT_COORDINATOR
    served_again(members, probes)
    assert gap(probes, since) < SILENT_S
    members.join_to_store(2)
    members.wait(lambda: any("fenced" in line for line in members.lines[2]), "it says so")


class Reader:
    """Asks one node for a group's offset again and again. `told`: when it asked, and the offset."""

    def __init__(self, at: tuple[str, int], group: str) -> None:
        self.told: list[tuple[float, int]] = []
        self.asked_at = 0.0
        self._at, self._group = at, group
        self._quitting = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Reader:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._quitting.set()
        self._thread.join()

    def _run(self) -> None:
        with socket.create_connection(self._at, 60) as connected:
            while not self._quitting.wait(0.005):
                self.asked_at = time.monotonic()
                found = exchange(connected, 9, 7, **fetched(self._group))
                if found.error_code == 0:
                    offset = found.topics[0].partitions[0].committed_offset
                    self.told.append((self.asked_at, int(offset)))


def test_a_node_that_is_only_read_from_tells_nothing_that_another_has_overtaken(
    members: Members,
) -> None:
    """No append of its own fails: what keeps it from answering is its lease alone."""
    group = group_at(members, 2)

    def commits(by: int, offset: int) -> bool:
        committed = ask(("127.0.0.1", members.ports[by]), 8, 7, **commit_fields(group, offset))
        return bool(committed.topics[0].partitions[0].error_code == 0)

    members.wait(lambda: commits(2, 1), "node 2 serves")
    with Reader(("127.0.0.1", members.ports[2]), group) as reader:
        members.wait(lambda: reader.told, "node 2 answers")
        members.cut_from_store(2)
        members.wait(lambda: commits(1, 2) or commits(3, 2), "another node acknowledges")
        acknowledged_at = time.monotonic()
        members.wait(
            lambda: reader.asked_at > acknowledged_at + 0.5 or not reader.told,
            "node 2 was asked again, and answered",
        )
    assert reader.told[0][1] == 1
    assert [told for told in reader.told if told[0] > acknowledged_at and told[1] < 2] == []
    members.join_to_store(2)


def test_a_rolling_restart_loses_nothing_and_takes_no_time(
    members: Members, probes: list[Probe]
) -> None:
    for node, by in ((1, signal.SIGTERM), (2, signal.SIGHUP), (3, signal.SIGINT)):
        since = members.watched_from_now()
        assert members.end(node, by) == 0
        served_again(members, probes)
        members.start(node)
        served_again(members, probes)
        assert gap(probes, since) < HANDOVER_S + (SILENT_S if node == 1 else 0)


def test_the_whole_cluster_may_end_and_begin_again(members: Members, probes: list[Probe]) -> None:
    for node in (1, 2, 3):
        members.kill(node)
    members.start_all()
    served_again(members, probes)
    said = [line for line in members.lines[1] if "pykcoord.cluster" in line]
    assert any("node before this one (node 1 at 127.0.0.1:" in line for line in said), said
    assert [line for line in said if ": node 1 at" in line] == []


def test_a_node_for_other_shards_is_refused_with_a_line(members: Members) -> None:
    members.end(3)
    refused = members.start(3, "--set", f"offsets.topic.num.partitions={SHARDS + 1}")
    assert refused.wait(60) == 1
    said = f"the cluster has {SHARDS} shards"
    members.wait(lambda: any(said in line for line in members.lines[3]), "it says why")


def test_what_is_not_led_is_not_answered(members: Members, probes: list[Probe]) -> None:
    group = group_at(members, 2)
    other = ("127.0.0.1", members.ports[1])
    committed = ask(other, 8, 7, **commit_fields(group, 10**6))
    assert committed.topics[0].partitions[0].error_code == NOT_COORDINATOR
