"""What a cluster over one folder costs while nothing happens, and how long groups wait when a node
is killed: `python -m benches.cluster --groups 100000`.

Prints reads and puts of the store per second and node, the memory of a node without groups, bytes
of a round for each shard in it, and the longest gaps in acknowledged commits over kills of a node
with so many groups. Figures are only printed, never gated on. Must only touch folders that it made.
"""

from __future__ import annotations

import argparse
import math
import socket
import statistics
import struct
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from support.hosting import commit_fields
from support.kio_client import encode
from support.members import Members
from support.ports import free_port
from support.probe import Probe

from pykcoord._native import partition_of
from pykcoord.cluster.looking import ClusterState, read_cluster
from pykcoord.log.shared.rounds import Round

SHARDS = 50
IDLE_S = 20.0
CONNECTIONS = 300
PROBES = 10
SETTINGS = {"offsets.topic.num.partitions": SHARDS}


@contextmanager
def cluster(nodes: int) -> Iterator[tuple[Members, dict[int, int]]]:
    """A cluster with all shards led, and the metrics' port of all nodes but the last."""
    with tempfile.TemporaryDirectory(prefix="pykcoord-bench-") as folder:
        members = Members(Path(folder), nodes, SETTINGS)
        ports = {node: free_port() for node in range(1, nodes)}
        try:
            for node in members.ports:
                at = ports.get(node)
                members.start(node, *(["--metrics", f"127.0.0.1:{at}"] if at else []))
            members.wait(lambda: is_spread(state(members)), "all is spread")
            yield members, ports
        finally:
            members.close()


def state(members: Members) -> ClusterState:
    return read_cluster(str(members.folder))


def is_spread(now: ClusterState) -> bool:
    led = [len(node.shards) for node in now.nodes]
    return not now.unled and max(led) - min(led) <= 1


def calls(port: int) -> dict[str, float]:
    """How often the store was asked, by call."""
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    rows = [line for line in lines if line.startswith("pykcoord_store_calls_total{")]
    return {row.split('"')[1]: float(row.rsplit(" ", 1)[1]) for row in rows}


def resident_mb(pid: int, kind: str) -> float:
    """`RssAnon` is a process's own, `RssFile` code that processes share."""
    (row,) = [one for one in Path(f"/proc/{pid}/status").read_text().splitlines() if kind in one]
    return int(row.split()[1]) / 1024


def idle() -> None:
    """A cluster that nobody asks anything."""
    with cluster(3) as (members, ports):
        before = {node: calls(port) for node, port in ports.items()}
        time.sleep(IDLE_S)
        for node, port in ports.items():
            now = calls(port)
            reads = sum(now[one] - before[node][one] for one in ("read", "names"))
            puts = now["create"] - before[node]["create"]
            say(f"idle, node {node}: {reads / IDLE_S:.2f} reads, {puts / IDLE_S:.2f} puts a second")
        own, shared = (resident_mb(members.processes[3].pid, of) for of in ("RssAnon", "RssFile"))
        say(f"a node without groups: {own:.1f} MB of its own, {shared:.1f} MB of code")


def fill(members: Members, groups: int) -> None:
    """A commit of each of so many groups, put at the node that leads it."""
    now = state(members)
    leader = {shard: now.leader(shard) for shard in range(SHARDS)}
    frames: dict[int, list[bytes]] = {node: [] for node in members.ports}
    for number in range(groups):
        group = f"group-{number:07d}"
        node_id = leader[partition_of(group, SHARDS)]
        assert node_id is not None
        frames[node_id].append(encode(8, 7, **commit_fields(group, number)))
    for node, of_node in frames.items():
        connected = [socket.create_connection(("127.0.0.1", members.ports[node]), 60)]
        connected += [
            socket.create_connection(connected[0].getpeername(), 60) for _ in range(CONNECTIONS)
        ]
        for first in range(0, len(of_node), len(connected)):
            asked = list(zip(connected, of_node[first:], strict=False))
            for at, frame in asked:
                at.sendall(frame)
            for at, _ in asked:
                (size,) = struct.unpack(">i", exactly(at, 4))
                exactly(at, size)
        for at in connected:
            at.close()


def exactly(at: socket.socket, size: int) -> bytes:
    content = b""
    while len(content) < size:
        part = at.recv(size - len(content))
        assert part, "the node hung up"
        content += part
    return content


def rounds(members: Members) -> None:
    """How large the objects of the journals are."""
    sizes, parts, records = [], 0, 0
    for path in (members.folder / "nodes").glob("*/[0-9]*"):
        content = path.read_bytes()
        found = Round.decode(path.name, content)
        if found.parts:
            sizes.append(len(content))
            parts += len(found.parts)
            records += sum(part.record_count for part in found.parts)
    say(
        f"rounds with records: {len(sizes):,}; {sum(sizes) / parts:.0f} bytes for each shard in "
        f"one, of which it has {records / parts:.1f} commits; {sum(sizes) / records:.0f} bytes a "
        "commit"
    )


def killed(groups: int, kills: int) -> None:
    """Kill a node that is not the controller and leads half of `2 * groups`, again and again."""
    with cluster(2) as (members, _):
        began = time.monotonic()
        fill(members, 2 * groups)
        say(f"{2 * groups:,} groups in two nodes, written in {time.monotonic() - began:.0f} s")
        rounds(members)
        each = [killed_once(members) for _ in range(kills)]
        gaps = sorted(gap for of_kill in each for gap in of_kill)
        p99 = gaps[min(len(gaps) - 1, math.ceil(0.99 * len(gaps)) - 1)]
        say(
            f"kill -9 of a node with {groups:,} groups, {kills} times, longest gaps of {PROBES} of "
            f"them each: median {statistics.median(gaps):.2f} s, p99 {p99:.2f} s, worst "
            f"{gaps[-1]:.2f} s; worst of each kill {', '.join(f'{max(of):.2f}' for of in each)}"
        )


def killed_once(members: Members) -> list[float]:
    """The longest gap of each of some of its groups."""
    now = state(members)
    (victim,) = [node for node in now.nodes if not node.is_controller]
    names = (f"probe-{number}" for number in range(10_000))
    led = [one for one in names if partition_of(one, SHARDS) in victim.shards][:PROBES]
    probes = [Probe(group, lambda: members.addresses) for group in led]
    for probe in probes:
        probe.start()
    try:
        members.wait(lambda: all(probe.acknowledged > 3 for probe in probes), "all are served")
        since = time.monotonic()
        members.kill(victim.node_id)
        members.wait(lambda: all(probe.times[-1] > since + 1 for probe in probes), "served again")
        time.sleep(1)
        gaps = [probe.longest_gap(since) for probe in probes]
        assert not any(probe.lost for probe in probes)
    finally:
        for probe in probes:
            probe.stop()
    members.start(victim.node_id)
    members.wait(lambda: is_spread(state(members)) and len(state(members).nodes) == 2, "both lead")
    return gaps


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benches.cluster", description=__doc__)
    parser.add_argument("--groups", type=int, default=100_000, help="of the node that is killed")
    parser.add_argument("--kills", type=int, default=12, help="how often it is (default 12)")
    arguments = parser.parse_args()
    idle()
    killed(arguments.groups, arguments.kills)


if __name__ == "__main__":
    main()
