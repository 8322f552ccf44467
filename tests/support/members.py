"""Nodes of a cluster over one folder (`pykcoord serve --cluster`), each a process."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from pykcoord._native import partition_of
from pykcoord.cluster.looking import ClusterState, read_cluster
from support import orphans
from support.asked import METADATA, Asked
from support.busy import Waits
from support.ports import free_port
from support.probe import Probe
from support.server import SETTINGS

WAIT_S = 60.0
_TOLD = 10  # of the lines of a node, the last ones are shown when a wait fails
SHARDS = 6
GROUPS = {partition_of(f"g{n}", SHARDS): f"g{n}" for n in range(60)}  # one of each shard


class Members:
    """Nodes 1, 2, ... over `folder`, at ports that stay theirs. Node n reaches the folder by a link
    of its own, which `cut_from_store` breaks. `settings` are beside those of all tests."""

    def __init__(
        self, folder: Path, nodes: int, settings: Mapping[str, object] | None = None
    ) -> None:
        self._settings = {
            **SETTINGS, "offsets.topic.num.partitions": SHARDS, **(settings or {})
        }  # fmt: skip
        self.folder = folder / "store"
        self.folder.mkdir()
        self._links = folder
        first = free_port(adjacent=nodes - 1)
        self.ports = {node: first + node - 1 for node in range(1, nodes + 1)}
        self.processes: dict[int, subprocess.Popen[str]] = {}
        self.lines: dict[int, list[str]] = {node: [] for node in self.ports}
        self._waits: list[Waits] = []
        for node in self.ports:
            self._link(node).symlink_to(self.folder)

    @property
    def addresses(self) -> list[tuple[str, int]]:
        return [("127.0.0.1", self.ports[node]) for node in self.processes]

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{host}:{port}" for host, port in self.addresses)

    def location(self, node: int) -> str:
        """Where this node finds the store."""
        return os.fspath(self._link(node))

    def environment(self, node: int) -> Mapping[str, str]:
        """What this node needs for that."""
        return {}

    def start(self, node: int, *arguments: str) -> subprocess.Popen[str]:
        """Start a node, and wait until it belongs to the cluster."""
        command = [
            sys.executable, "-m", "pykcoord", "serve", "--cluster", self.location(node),
            "--listen", f"127.0.0.1:{self.ports[node]}", "--topic", "orders:6",
            "--set", f"node.id={node}",
        ]  # fmt: skip
        for key, value in self._settings.items():
            command += ["--set", f"{key}={value}"]
        process = subprocess.Popen(
            [*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, **self.environment(node)},
        )  # fmt: skip
        orphans.started(process)
        self.processes[node] = process
        heard = self.lines[node] = []
        threading.Thread(target=self._read, args=(process, heard), daemon=True).start()
        self.wait(
            lambda: process.poll() is not None or any("ready" in line for line in heard),
            f"node {node} is ready",
        )
        return process

    def start_all(self) -> Members:
        """All nodes; each knows of the others, so that clients' lists of brokers stay as they are:
        librdkafka gives up what it asks a broker that is not in its list any more."""
        for node in self.ports:
            self.start(node)
        self.wait_known()
        return self

    def wait_known(self) -> None:
        """Until each node knows of all."""
        self.wait(
            lambda: all(self._known(node) == {*self.ports} for node in self.ports),
            "each knows of the others",
        )

    def watched_from_now(self) -> Waits:
        """From now on, with when the nodes wait for a processor."""
        self._waits.append(Waits(self._pids))
        return self._waits[-1]

    def _pids(self) -> list[int]:
        return [one.pid for one in [*self.processes.values()] if one.poll() is None]

    def end(self, node: int, by: signal.Signals = signal.SIGTERM) -> int:
        process = self.processes.pop(node)
        process.send_signal(by)
        return process.wait(WAIT_S)

    def kill(self, node: int) -> None:
        process = self.processes.pop(node)
        process.kill()
        process.wait(WAIT_S)

    def cut_from_store(self, node: int) -> None:
        """All that it asks of the store fails from now on."""
        # In one step: where nothing is, the node would make a folder.
        no_folder = self._links / f"no-folder-{node}"
        no_folder.write_text("no folder")
        no_folder.replace(self._link(node))

    def join_to_store(self, node: int) -> None:
        link = self._links / f"folder-{node}"
        link.symlink_to(self.folder)
        link.replace(self._link(node))

    def close(self) -> None:
        for waits in self._waits:
            waits.close()
        for process in self.processes.values():
            process.kill()
            process.send_signal(signal.SIGCONT)
            process.wait(WAIT_S)

    def wait(self, condition: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + WAIT_S
        while not condition():
            said = {node: lines[-_TOLD:] for node, lines in self.lines.items()}
            assert time.monotonic() < deadline, f"not in {WAIT_S} s: {what}; {said}"
            time.sleep(0.02)

    def _known(self, node: int) -> set[int]:
        """The nodes that this one names to clients."""
        with Asked(f"127.0.0.1:{self.ports[node]}") as asked:
            told = asked.ask(METADATA, 7, topics=(), allow_auto_topic_creation=False)
        return {int(broker.node_id) for broker in told.brokers}

    def _link(self, node: int) -> Path:
        return self._links / f"seen-by-{node}"

    @staticmethod
    def _read(process: subprocess.Popen[str], heard: list[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            heard.append(line.rstrip())


@contextlib.contextmanager
def probing(members: Members) -> Iterator[list[Probe]]:
    """A client that commits for a group of each shard; all are served before the block begins, and
    nothing acknowledged was lost when it ends."""
    made = [Probe(group, lambda: members.addresses) for group in GROUPS.values()]
    for probe in made:
        probe.start()
    members.wait(lambda: all(probe.acknowledged >= 3 for probe in made), "all groups are served")
    yield made
    for probe in made:
        probe.stop()
    assert [text for probe in made for text in probe.lost] == []


def served_again(members: Members, probes: list[Probe]) -> None:
    """Waits until each has further commits acknowledged."""
    before = [probe.acknowledged for probe in probes]
    members.wait(
        lambda: all(
            probe.acknowledged > one + 2 for probe, one in zip(probes, before, strict=True)
        ),
        f"all groups are served; {[probe.told(0)[-200:] for probe in probes]}",
    )


def spread(members: Members) -> ClusterState:
    """Once each node leads as many shards as the others."""
    store, nodes = str(members.folder), len(members.ports)
    each = SHARDS // nodes
    members.wait(
        lambda: [len(node.shards) for node in read_cluster(store).nodes] == [each] * nodes,
        "all is spread",
    )
    return read_cluster(store)


def gap(probes: Sequence[Probe], since: Waits) -> float:
    """The longest of all gaps from then on, in seconds, each without what somebody waited for a
    processor in it. A test of which the output is asked for tells it."""
    gaps = [one for probe in probes for one in probe.gaps(since.at)]
    found, whole = max((end - at - since.within(at, end), end - at) for at, end in gaps)
    sys.stdout.write(f"longest gap {found:.2f} s, with what somebody waited {whole:.2f} s\n")
    return found
