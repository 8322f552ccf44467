"""`pykcoord serve` as a subprocess; must never import pykcoord, which is tested from outside."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from support import orphans
from support.ports import free_port

# The settings of a server unless a test says otherwise: short timeouts, no initial wait.
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "group.max.session.timeout.ms": "1800000",
    "offsets.topic.num.partitions": "5",
}
READY_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 60.0


class ServerError(RuntimeError):
    """The server ended, or did not become ready in time; the message carries its stderr."""


class PykcoordServer:
    """One data directory and the process that serves it; may be killed and started again.

    Every start is on the same port, as clients expect.
    """

    name = "pykcoord"

    def __init__(
        self,
        directory: Path,
        *,
        topics: Mapping[str, int] | None = None,
        settings: Mapping[str, str] | None = None,
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        module: str = "pykcoord",
    ) -> None:
        self.directory = directory
        self.module = module
        self.topics = dict(topics or {})
        self.settings = {**SETTINGS, **(settings or {})}
        self.arguments = list(arguments)
        self.environment = {**os.environ, **(environment or {})}
        self.address = f"127.0.0.1:{free_port()}"
        self.ready: dict[str, str] = {}
        self._process: subprocess.Popen[str] | None = None
        self._stderr = directory.parent / f"{directory.name}.stderr"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server was not started"
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether a process was started and not yet seen to end."""
        return self._process is not None

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def start(self) -> PykcoordServer:
        """Starts the process and waits for its ready line; raises ServerError without one."""
        assert self._process is None, "the server already runs"
        self.directory.parent.mkdir(parents=True, exist_ok=True)
        with self._stderr.open("ab") as stderr:
            process = subprocess.Popen(
                self._command(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr,
                text=True, start_new_session=True, env=self.environment,
            )  # fmt: skip
        orphans.started(process)
        self._process = process
        lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=_drain, args=(process, lines), daemon=True).start()
        self.ready = self._await_ready(lines)
        self.address = self.ready["listen"]
        return self

    def stop(self) -> int:
        """Ends the server cleanly (SIGTERM) and returns its exit status."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Ends the server with SIGKILL, as a crash of the process would."""
        self._end(signal.SIGKILL)

    def wait(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """Waits for an end that something else causes, and returns the exit status."""
        assert self._process is not None, "the server does not run"
        status = self._process.wait(timeout_s)
        orphans.ended(self._process)
        self._process = None
        return status

    def restart(self) -> PykcoordServer:
        """SIGKILL, then a start on the same directory and port."""
        self.kill()
        return self.start()

    def stderr(self) -> str:
        return self._stderr.read_text(errors="replace") if self._stderr.exists() else ""

    def __enter__(self) -> PykcoordServer:
        return self if self._process is not None else self.start()

    def __exit__(self, *exception: object) -> None:
        if self._process is not None:
            self.stop()

    def _command(self) -> list[str]:
        command = [sys.executable, "-m", self.module, "serve", os.fspath(self.directory)]
        command += ["--listen", self.address]
        for topic, partitions in self.topics.items():
            command += ["--topic", f"{topic}:{partitions}"]
        for key, value in self.settings.items():
            command += ["--set", f"{key}={value}"]
        return command + self.arguments

    def _await_ready(self, lines: queue.Queue[str | None]) -> dict[str, str]:
        try:
            while (line := lines.get(timeout=READY_TIMEOUT_S)) is not None:
                if line.startswith("pykcoord ready "):
                    return dict(word.split("=", 1) for word in line.split()[2:])
        except queue.Empty:
            self.kill()
            raise ServerError(f"no ready line in {READY_TIMEOUT_S} s\n{self.stderr()}") from None
        status = self._end(signal.SIGKILL)
        raise ServerError(f"the server ended with {status} while starting\n{self.stderr()}")

    def _end(self, number: signal.Signals) -> int:
        process, self._process = self._process, None
        assert process is not None, "the server does not run"
        process.send_signal(number)
        try:
            return process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise ServerError(f"still running {STOP_TIMEOUT_S} s after {number.name}") from None
        finally:
            orphans.ended(process)


def _drain(process: subprocess.Popen[str], lines: queue.Queue[str | None]) -> None:
    assert process.stdout is not None
    with process.stdout as stdout:
        for line in stdout:
            lines.put(line)
    lines.put(None)
