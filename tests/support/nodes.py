"""`pykcoord serve --nodes N` as processes, with what its supervisor says of them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from support import orphans
from support.ports import free_port
from support.server import SETTINGS

WAIT_S = 60.0


class Nodes:
    """One directory, and the supervisor and nodes that serve it; may be started again with another
    number of nodes. `said` are the lines of the log, as JSON; waits for what is to come there."""

    def __init__(
        self,
        directory: Path,
        topics: Mapping[str, int] | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.directory = directory
        self.topics = dict(topics or {})
        self.settings = {**SETTINGS, **(settings or {})}
        self.port = free_port(adjacent=2)  # three in a row
        self.said: list[dict[str, Any]] = []
        self.other_lines: list[str] = []
        self.ready: dict[str, str] = {}
        self.pids: dict[int, int] = {}
        self._changed = threading.Condition()
        self.supervisor: subprocess.Popen[str] | None = None

    @property
    def addresses(self) -> list[tuple[str, int]]:
        return [(host, int(port)) for host, port in (a.split(":") for a in self._listen)]

    @property
    def bootstrap(self) -> str:
        return self.ready["listen"]

    @property
    def _listen(self) -> list[str]:
        return self.ready["listen"].split(",")

    def start(self, nodes: int, *arguments: str) -> Nodes:
        assert self.supervisor is None
        command = [
            sys.executable, "-m", "pykcoord", "serve", os.fspath(self.directory), "--nodes",
            str(nodes), "--listen", f"127.0.0.1:{self.port}", "--log-format", "json", *arguments,
        ]  # fmt: skip
        for topic, partitions in self.topics.items():
            command += ["--topic", f"{topic}:{partitions}"]
        for key, value in self.settings.items():
            command += ["--set", f"{key}={value}"]
        self.supervisor = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True,
        )  # fmt: skip
        orphans.started(self.supervisor)
        self.ready, self.said, self.pids = {}, [], {}
        for stream, hear in (
            (self.supervisor.stdout, self._hear_ready),
            (self.supervisor.stderr, self._hear_line),
        ):
            threading.Thread(target=self._read, args=(stream, hear), daemon=True).start()
        self.wait(lambda: bool(self.ready) or self.supervisor_has_ended(), "the ready line")
        assert self.ready, self.other_lines
        return self

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        """Until it holds; looked at when something is said, and sometimes in between."""
        deadline = time.monotonic() + WAIT_S
        with self._changed:
            while not condition():
                self._changed.wait(0.05)
                assert time.monotonic() < deadline, f"not in {WAIT_S} s: {what}; {self.said[-20:]}"

    def events(self, name: str, node: int | None = None) -> list[dict[str, Any]]:
        return [
            line
            for line in list(self.said)
            if line.get("event") == name and node in (None, line.get("node"))
        ]

    def wait_started_again(self, node: int, since: int) -> None:
        """`since`: how often the node was ready before."""
        self.wait(lambda: len(self.events("node_ready", node)) > since, f"node {node} serves again")

    def send(self, node: int, number: signal.Signals) -> None:
        os.kill(self.pids[node], number)

    def kill(self, node: int) -> int:
        """SIGKILL of one node; returns how often it was ready."""
        before = len(self.events("node_ready", node))
        self.send(node, signal.SIGKILL)
        return before

    def supervisor_has_ended(self) -> bool:
        return self.supervisor is not None and self.supervisor.poll() is not None

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        assert self.supervisor is not None
        self.supervisor.send_signal(number)
        return self.wait_ended()

    def wait_ended(self) -> int:
        assert self.supervisor is not None
        code = self.supervisor.wait(WAIT_S)
        orphans.ended(self.supervisor)
        self.supervisor = None
        return code

    def close(self) -> None:
        """However a test ended."""
        if self.supervisor is not None:
            for pid in self.pids.values():
                _send(pid, signal.SIGCONT)
            self.end()

    def _read(self, stream: Any, hear: Callable[[str], None]) -> None:
        for line in stream:
            with self._changed:
                hear(line)
                self._changed.notify_all()

    def _hear_ready(self, line: str) -> None:
        if line.startswith("pykcoord ready "):
            self.ready = dict(word.split("=", 1) for word in line.split()[2:])

    def _hear_line(self, line: str) -> None:
        if not line.startswith("{"):
            self.other_lines.append(line)
            return
        told = json.loads(line)
        self.said.append(told)
        if told.get("event") == "node_ready":
            self.pids[told["node"]] = told["pid"]


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
