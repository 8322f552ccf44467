"""The faults: each strikes one node, and ends after a while."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from support.proxied import ProxiedMembers

from pykcoord.cluster import wanting
from pykcoord.cluster.looking import ClusterFollower
from pykcoord.errors import KcoordError

__all__ = ["FAULTS", "Striker"]

_LEAST_S, _MOST_S = 0.5, 6.0
_QUIET_S = (1.0, 6.0)
# Two at once, now and then: a node that is cut off from the store while another one is killed.
_SECOND = 0.25


class Striker:
    """Strikes `nodes` at random, by `seed`, one or two of them at a time. `struck` counts the
    faults."""

    def __init__(self, nodes: ProxiedMembers, seed: int) -> None:
        self.struck: Counter[str] = Counter()
        self.error: BaseException | None = None
        """Why the faults have ended early."""
        self._nodes = nodes
        self._random = random.Random(seed)

    def run(self, end: float) -> None:
        """Strike until that time (monotonic). All nodes are well afterwards."""
        try:
            while time.monotonic() < end:
                self._one(set(), end)
                time.sleep(self._random.uniform(*_QUIET_S))
        except BaseException as error:
            self.error = error

    def _one(self, busy: set[int], end: float) -> None:
        free = [node for node in self._nodes.ports if node not in busy]
        node = self._random.choice(free)
        name = self._random.choice([*FAULTS])
        self.struck[name] += 1
        with FAULTS[name](self, node):
            time.sleep(
                min(self._random.uniform(_LEAST_S, _MOST_S), max(0.0, end - time.monotonic()))
            )
            if not busy and self._random.random() < _SECOND:
                self._one({node}, end)

    @contextmanager
    def _killed(self, node: int) -> Iterator[None]:
        self._nodes.kill(node)
        yield
        self._start(node)

    @contextmanager
    def _asleep(self, node: int) -> Iterator[None]:
        process = self._nodes.processes[node]
        process.send_signal(signal.SIGSTOP)
        yield
        process.send_signal(signal.SIGCONT)

    @contextmanager
    def _without_store(self, node: int) -> Iterator[None]:
        self._nodes.cut_from_store(node)
        yield
        self._nodes.join_to_store(node)

    @contextmanager
    def _unheard(self, node: int) -> Iterator[None]:
        """What it says to who asks it is lost."""
        self._nodes.controls[node].cut("back")
        yield
        self._nodes.controls[node].join()

    @contextmanager
    def _unasked(self, node: int) -> Iterator[None]:
        """Nobody reaches it, and it does not hear that."""
        self._nodes.controls[node].cut()
        yield
        self._nodes.controls[node].join()

    @contextmanager
    def _ended(self, node: int) -> Iterator[None]:
        """As by a rolling restart."""
        try:
            self._nodes.end(node)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"node {node} does not end: {self._nodes.lines[node]}") from None
        yield
        self._start(node)

    @contextmanager
    def _moved(self, node: int) -> Iterator[None]:
        """A shard is wanted here, and then anywhere."""
        cluster = ClusterFollower(str(self._nodes.folder))
        shard = self._random.randrange(cluster.read().shards)
        try:
            wanting.move(cluster, [shard], node)
        except KcoordError:
            yield  # it is not there now
            return
        yield
        wanting.move(cluster, [shard], None)

    @contextmanager
    def _drained(self, node: int) -> Iterator[None]:
        cluster = ClusterFollower(str(self._nodes.folder))
        try:
            wanting.drain(cluster, node)
        except KcoordError:
            yield
            return
        yield
        wanting.drain(cluster, node, undo=True)

    def _start(self, node: int) -> None:
        if (code := self._nodes.start(node).poll()) is not None:
            raise AssertionError(f"node {node} ended with {code}: {self._nodes.lines[node]}")


FAULTS = {
    "kill -9": Striker._killed,
    "SIGSTOP": Striker._asleep,
    "cut off from the store": Striker._without_store,
    "its answers to nodes lost": Striker._unheard,
    "cut off from nodes": Striker._unasked,
    "SIGTERM": Striker._ended,
    "shard moved": Striker._moved,
    "drained": Striker._drained,
}
"""All kinds, by name."""
