"""Hosts as Spark's tasks run them, each a process of this machine without Spark."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pykcoord_spark.hosting.host import HostOptions
from pykcoord_spark.hosting.registry import HostEntry, Registry
from pykcoord_spark.hosting.watching import Watch

from pykcoord.cluster import SharedTopics, open_topics
from pykcoord.log.shared import open_store
from support import orphans
from support.hosting import CONFIG

_ROOT = Path(__file__).parents[2]
_HOST = (
    "import sys\n"
    "from pykcoord_spark.hosting.host import HostOptions, run_host\n"
    "print(run_host(HostOptions.of_json(sys.argv[1])))\n"
)
_START_S, _END_S = 60.0, 30.0


class Hosts:
    """The hosts of an application on the log at `log`, and what its driver sees. `seen_by` is the
    way by which hosts find the log, if not by `log`."""

    def __init__(self, log: Path, shards: int, topics: Mapping[str, int]) -> None:
        self.log = log
        self.shards = shards
        store = open_store(log)
        open_topics(SharedTopics(store), topics)
        self.registry = Registry(store)
        self.term = self.registry.begin_application("tests")
        self.watch = Watch(str(log), self.term, 0.05)
        self.watch.start()
        self.processes: list[subprocess.Popen[str]] = []

    def start(self, hosts: int = 1, seen_by: Path | None = None) -> None:
        """Start so many more, and wait until every shard is led."""
        for _ in range(hosts):
            options = HostOptions(
                log=str(seen_by or self.log), shards=self.shards, application=self.term,
                slot=len(self.processes), config=CONFIG, poll_seconds=0.1,
            )  # fmt: skip
            process = subprocess.Popen(
                [sys.executable, "-c", _HOST, options.to_json()],
                env={**os.environ, "PYTHONPATH": f"{_ROOT}{os.pathsep}{_ROOT / 'spark'}"},
                stdout=subprocess.PIPE,
                text=True,
            )
            orphans.started(process)
            self.processes.append(process)
        expected = len(self.processes)
        assert self.watch.wait_led(expected, self.shards, _START_S, lambda: False), self.watch.seen

    @property
    def entries(self) -> list[HostEntry]:
        return [*self.watch.seen.hosts]

    def outcome(self, slot: int) -> str:
        """Why the host of a slot has ended; waits for it."""
        return self.processes[slot].communicate(timeout=_END_S)[0].strip()

    def close(self) -> None:
        self.registry.stop_application(self.term)
        self.watch.stop()
        for process in self.processes:
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            orphans.ended(process)


@contextmanager
def hosts(log: Path, shards: int, topics: Mapping[str, int]) -> Iterator[Hosts]:
    """Of a new application, which ends with the block."""
    made = Hosts(log, shards, topics)
    try:
        yield made
    finally:
        made.close()
