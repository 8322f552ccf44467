"""Hosts of shards: in this process over any store, or processes of their own over a folder."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pykcoord.callers import Callers
from pykcoord.clock import Clock
from pykcoord.cluster.controller import Controller
from pykcoord.cluster.host import HostOptions
from pykcoord.cluster.hosted_log import HostedLog
from pykcoord.cluster.leading import Leadership
from pykcoord.cluster.registry import HostEntry, Registry
from pykcoord.cluster.topics import SharedTopics, open_topics
from pykcoord.config import Config
from pykcoord.engine import Engine
from pykcoord.log.shared import open_logs, open_store
from pykcoord.session import EMBEDDED
from support.kio_client import decode, encode

ROOT = Path(__file__).parents[2]
CONFIG = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "1000"}
_HOST = (
    "import sys\n"
    "from pykcoord.cluster.host import HostOptions, run_host\n"
    "run_host(HostOptions.of_json(sys.argv[1]))\n"
)


class FaultyStore:
    """Objects in a dict; `faults` says of the next creates of entries what becomes of them."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.faults: list[str] = []
        self._gate = threading.Lock()

    def create(self, name: str, content: bytes) -> bool:
        with self._gate:
            fault = self.faults.pop(0) if self.faults and self._is_entry(name) else ""
            if fault == "before":
                raise OSError("no connection")
            made = self.objects.setdefault(name, content) is content
            if fault == "after":
                raise OSError("no answer")
            return made

    @staticmethod
    def _is_entry(name: str) -> bool:
        return "/chunks/" in name or name.startswith("nodes/")

    def read(self, name: str) -> bytes | None:
        return self.objects.get(name)

    def names(self, folder: str) -> list[str]:
        below = (name.removeprefix(f"{folder}/") for name in [*self.objects] if folder in name)
        return sorted(name for name in below if "/" not in name)

    def delete(self, name: str) -> None:
        self.objects.pop(name, None)


class InProcess:
    """A host without sockets and registry: a test tells it by `want` which shards to lead."""

    def __init__(self, store: Any, shards: int, name: str, snapshots: Any = None) -> None:
        config = Config(group_initial_rebalance_delay_ms=0)
        clock = Clock()
        put = snapshots.entry_was_put if snapshots is not None else lambda shard, log: None
        self.log = HostedLog(store, shards, name, clock.now_ms, put)
        engine = Engine.open(self.log, config, {"orders": 1}, clock=clock)
        self.node, self.runtime = engine.node, engine.runtime
        self.announced: list[tuple[int, int]] = []
        self.leadership = Leadership(self.runtime, self.log, announce=self._announce)
        self.callers = Callers(self.runtime)
        self.runtime.start(self.callers)

    async def _announce(self, shard: int, epoch: int) -> None:
        self.announced.append((shard, epoch))

    async def lead(self, *shards: int) -> None:
        """Lead these and no others, whichever hosts led them before."""
        epochs = dict.fromkeys(shards, -1)
        while not epochs.keys() <= self.leadership.led.keys():
            answer = self.leadership.want(epochs)
            for shard, epoch in answer.refused.items():
                epochs[shard] = max(epochs[shard], epoch)
            await asyncio.sleep(0.001)

    async def ask(self, key: int, version: int, **fields: Any) -> Any:
        reply = await self.callers.send(EMBEDDED, encode(key, version, **fields)[4:])
        return decode(key, version, reply)

    async def commit(self, group_id: str, offset: int) -> int:
        response = await self.ask(8, 7, **commit_fields(group_id, offset))
        return int(response.topics[0].partitions[0].error_code)

    async def committed(self, group_id: str) -> tuple[int, int]:
        """Error code and offset."""
        topics = [{"name": "orders", "partition_indexes": (0,)}]
        response = await self.ask(
            9, 8, groups=[{"group_id": group_id, "topics": topics}], require_stable=False
        )
        group = response.groups[0]
        if group.error_code:
            return int(group.error_code), -1
        return 0, group.topics[0].partitions[0].committed_offset

    async def close(self) -> None:
        self.leadership.close()
        await self.runtime.stop()
        self.log.close()


def commit_fields(group_id: str, offset: int) -> dict[str, Any]:
    partition = {
        "partition_index": 0,
        "committed_offset": offset,
        "committed_leader_epoch": -1,
        "committed_metadata": "",
    }
    return {
        "group_id": group_id,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "group_instance_id": None,
        "topics": [{"name": "orders", "topic_id": None, "partitions": [partition]}],
    }


class Processes:
    """A cluster of host processes on this machine, with its controller in this process."""

    def __init__(self, log: Path, shards: int, topics: Mapping[str, int]) -> None:
        self.log = log
        self.shards = shards
        self.store = open_store(log)
        open_logs(log, shards)
        open_topics(SharedTopics(self.store), topics)
        self.registry = Registry(self.store)
        self.term = self.registry.begin_application("tests")
        self.controller = Controller(self.store, shards, self.term)
        self.processes: list[subprocess.Popen[bytes]] = []

    def spawn(self, **options: Any) -> subprocess.Popen[bytes]:
        given = HostOptions(
            log=str(self.log), shards=self.shards, application=self.term,
            slot=len(self.processes), config=CONFIG, **options,
        )  # fmt: skip
        process = subprocess.Popen(
            [sys.executable, "-c", _HOST, given.to_json()],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        self.processes.append(process)
        return process

    def start(self, hosts: int) -> None:
        for _ in range(hosts):
            self.spawn()
        self.controller.start()
        assert self.controller.wait_led(hosts, 60), self.controller.failures()

    @property
    def bootstrap(self) -> list[str]:
        return [f"{host.host}:{host.port}" for host in self.controller.hosts()]

    def leader(self, shard: int) -> HostEntry:
        """The host that leads a shard now."""
        led = wait_until(lambda: self.controller.led().get(shard))
        return next(host for host in self.controller.hosts() if host.node_id == led)

    def stop(self) -> None:
        self.registry.stop_application(self.term)
        self.controller.stop()
        for process in self.processes:
            try:
                process.wait(60)
            finally:
                process.kill()
                process.wait()


@contextmanager
def processes(
    log: Path, *, shards: int, hosts: int, topics: Mapping[str, int]
) -> Iterator[Processes]:
    """A cluster of processes, all shards led."""
    cluster = Processes(log, shards, topics)
    try:
        cluster.start(hosts)
        yield cluster
    finally:
        cluster.stop()


def wait_until(condition: Callable[[], Any], seconds: float = 60.0) -> Any:
    """The first true value of `condition()`."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.01)
    return found
