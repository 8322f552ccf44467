"""The processes of the demo: the coordinator and its consumers, started, heard and killed.

Each is a child of this process and ends with it: a consumer when its stdin closes, the
coordinator because `close` kills it. Nothing here decides what happens next.
"""

from __future__ import annotations

import json
import queue
import signal
import subprocess
import sys
import threading
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from pykcoord.errors import KcoordError

_READY_SECONDS = 15.0
_END_SECONDS = 10.0
_LAST_LINES = 15


class DemoError(KcoordError):
    """The demo cannot go on: a process of it ended, or stayed silent."""


@dataclass(frozen=True)
class Event:
    """One line that a consumer printed."""

    name: str
    kind: str
    generation: int
    offsets: dict[int, int]
    error: str


class Process:
    """A child whose stdout is heard line by line; the end of its stderr is kept for messages."""

    def __init__(self, what: str, arguments: list[str]) -> None:
        self.what = what
        self.errors: deque[str] = deque(maxlen=_LAST_LINES)
        self._child = subprocess.Popen(
            [sys.executable, "-m", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # A Ctrl-C is for the demo, which ends its children in order.
            start_new_session=True,
        )
        assert self._child.stdout is not None
        assert self._child.stderr is not None
        self._listen(self._child.stdout, self.heard)
        self._listen(self._child.stderr, self.errors.append)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._child.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._child.poll() is None

    def heard(self, line: str) -> None:
        """A line of stdout, on a thread of its own; an empty one at the end."""

    def kill(self) -> None:
        """SIGKILL: it gets no chance to do anything."""
        self._child.kill()
        self._child.wait()

    def end(self) -> int:
        """Ask it to end; kill it if it does not. Returns the exit code."""
        self.ask_to_end()
        try:
            return self._child.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise DemoError(f"{self.what} did not end within {_END_SECONDS:g} s") from None

    def ask_to_end(self) -> None:
        """Close its stdin."""
        assert self._child.stdin is not None
        self._child.stdin.close()

    def failure(self, message: str) -> DemoError:
        """What to raise, with the last of its stderr."""
        tail = " | ".join(line.strip() for line in self.errors if line.strip())
        return DemoError(f"{self.what} {message}" + (f": {tail}" if tail else ""))

    def _listen(self, stream: IO[str], heard: Any) -> None:
        def listen() -> None:
            for line in stream:
                heard(line)
            heard("")

        threading.Thread(target=listen, daemon=True).start()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        self._child.send_signal(number)


class Coordinator(Process):
    """`pykcoord serve`, with `nodes` processes if that is more than one."""

    def __init__(
        self, directory: Path, listen: str, topic: str, partitions: int, nodes: int = 1
    ) -> None:
        self._ready: queue.SimpleQueue[str] = queue.SimpleQueue()
        arguments = ["pykcoord", "serve", str(directory), "--listen", listen]
        if nodes > 1:
            arguments += ["--nodes", str(nodes)]
        super().__init__("the coordinator", [*arguments, "--topic", f"{topic}:{partitions}"])

    def heard(self, line: str) -> None:
        self._ready.put(line)

    def ready(self) -> dict[str, str]:
        """Wait for the ready line; returns its fields."""
        try:
            line = self._ready.get(timeout=_READY_SECONDS)
        except queue.Empty:
            raise self.failure(f"is not ready after {_READY_SECONDS:g} s") from None
        if not line.startswith("pykcoord ready "):
            raise self.failure("ended before it was ready")
        return dict(field.split("=", 1) for field in line.split()[2:])

    def ask_to_end(self) -> None:
        """SIGTERM."""
        self.signal(signal.SIGTERM)


class Consumer(Process):
    """One consumer; the events that it prints go to `events`."""

    def __init__(
        self, name: str, bootstrap: str, group: str, topic: str, events: queue.SimpleQueue[Event]
    ) -> None:
        self.name = name
        self._events = events
        arguments = ["pykcoord.cli.demo.consumer", bootstrap, group, topic, name]
        super().__init__(f"consumer {name}", arguments)

    def heard(self, line: str) -> None:
        if not line:
            self._events.put(Event(self.name, "ended", -1, {}, ""))
            return
        told = json.loads(line)
        offsets = {int(at): offset for at, offset in told.get("offsets", {}).items()}
        generation, error = told.get("generation", -1), told.get("error", "")
        self._events.put(Event(self.name, told["event"], generation, offsets, error))
