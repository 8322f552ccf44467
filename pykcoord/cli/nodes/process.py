"""One start of a node, as the supervisor has it: a child with its stdin and stdout.

It is over when the process was waited for: until then it may still write to its shards.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Callable

from pykcoord.cli.nodes.messages import LINE_BYTES, Message, Start, decoded, encoded

__all__ = ["NodeProcess"]


class NodeProcess:
    """A node that is started by `run`. `heard(process, message)` is called with what it says.

    `newest_epoch` is there once it has read its shards, `is_ready` says whether clients are served.
    `unanswered`: how many pings in a row found the one before without an answer. `changes`: how
    often it has changed topics. `is_ending`: it was asked to end.
    """

    def __init__(self, start: Start, heard: Callable[[NodeProcess, Message], None]) -> None:
        self.start = start
        self.node_id = start.config.node_id
        self.newest_epoch: int | None = None
        self.has_begun = False
        self.is_ready = False
        self.unanswered = 0
        self.failure: str | None = None
        self.is_lost = False
        self.has_topics = 0
        self.changes = 0
        self._heard = heard
        self._child: asyncio.subprocess.Process | None = None
        self._pinged = self._ponged = 0
        self.is_ending = False

    @property
    def pid(self) -> int:
        """The process id; -1 before it was launched."""
        return self._child.pid if self._child is not None else -1

    async def run(self) -> int:
        """From its launch to its end; returns the exit code, negative for a signal. It has failed
        where it cannot be launched."""
        arguments = [sys.executable, "-m", "pykcoord.cli.nodes.node"]
        try:
            child = self._child = await asyncio.create_subprocess_exec(
                *arguments,
                f"node-{self.node_id}",  # for people who list processes
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=LINE_BYTES,
                pass_fds=(self.start.lock_descriptor,),
                # A Ctrl-C is for the supervisor, which ends its nodes in order.
                start_new_session=True,
            )
        except OSError as error:  # no memory, or too many processes
            self.failure = f"it cannot be launched: {error}"
            return 1
        self._write(self.start.to_line())
        if self.is_ending:
            self.end()
        assert child.stdout is not None
        with contextlib.suppress(ConnectionError):
            while line := await child.stdout.readline():
                self._hear(decoded(line))
        self.is_ready = False
        return await child.wait()

    def send(self, **message: object) -> None:
        """Say something to it; nothing where it is gone."""
        self._write(encoded(message))

    def ping(self) -> None:
        """Ask whether its loop runs, unless it has been asked."""
        if self._ponged < self._pinged:
            self.unanswered += 1
            return
        self._pinged += 1
        self.send(ping=self._pinged)

    def end(self) -> None:
        """Ask it to end: SIGTERM."""
        self.is_ending = True
        if self.newest_epoch is None or not self.is_ready:
            self._close_input()  # it may be waiting for a line
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self._signal(signal.SIGKILL)

    def _hear(self, message: Message) -> None:
        match message:
            case {"pong": number}:
                self._ponged, self.unanswered = number, 0
            case {"read": newest_epoch}:
                self.newest_epoch = newest_epoch
            case {"ready": _}:
                self.is_ready = True
            case {"has_topics": number}:
                self.has_topics = number
            case {"topics": number}:
                self.changes = number
            case {"failed": reason, "lost": lost}:
                self.failure, self.is_lost = reason, lost
        self._heard(self, message)

    def _write(self, line: bytes) -> None:
        if self._child is not None and self._child.stdin is not None:
            with contextlib.suppress(ConnectionError, RuntimeError):
                self._child.stdin.write(line)

    def _close_input(self) -> None:
        if self._child is not None and self._child.stdin is not None:
            self._child.stdin.close()

    def _signal(self, number: signal.Signals) -> None:
        if self._child is not None and self._child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._child.send_signal(number)
