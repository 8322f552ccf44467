"""A server under attack, and the checks after every attack."""

from __future__ import annotations

import re
import resource
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from support.server import PykcoordServer

from attack.heartbeats import Victim
from attack.wire import Connection, alive_frame

TOPICS = {"orders": 12}
_OURS = re.compile(r"Traceback|panicked|memory allocation of|a node-level request failed")
# The memory that an attack of a test may add to the server's at any moment.
MOST_BYTES = 256 << 20
_MOST_ADDRESSES = 8 << 30
_SETTLES_WITHIN_S = 60.0


class Target:
    """A running server, and a well-behaved member of it."""

    def __init__(self, server: PykcoordServer, victim: Victim) -> None:
        self.server = server
        self.victim = victim

    @property
    def port(self) -> int:
        return self.server.port

    def peak_bytes(self) -> int:
        """The most memory that the process has held so far."""
        return self._status("VmHWM")

    def resident_bytes(self) -> int:
        return self._status("VmRSS")

    def descriptors(self) -> int:
        return len(list(Path(f"/proc/{self.server.pid}/fd").iterdir()))

    def answers(self) -> bool:
        with Connection(self.port) as connection:
            return len(connection.ask(alive_frame())) > 4

    def until(self, condition: Callable[[], bool]) -> None:
        """Ask the server something again and again, until `condition()`."""
        deadline = time.monotonic() + _SETTLES_WITHIN_S
        while not condition():
            assert time.monotonic() < deadline, self.server.stderr()
            assert self.answers()

    def _status(self, name: str) -> int:
        text = Path(f"/proc/{self.server.pid}/status").read_text()
        match = re.search(rf"{name}:\s+(\d+) kB", text)
        assert match is not None, text
        return 1024 * int(match[1])


@contextmanager
def attacked(
    directory: Path,
    *,
    most_bytes: int = MOST_BYTES,
    settings: Mapping[str, str] | None = None,
    arguments: Sequence[str] = (),
) -> Iterator[Target]:
    """A server for an attack. When the attack is over it must still answer, its well-behaved
    member must have heard no error, nothing may have failed inside, the memory that was taken is
    bounded, and it ends as it should."""
    server = PykcoordServer(directory, topics=TOPICS, settings=settings, arguments=arguments)
    with server, Victim(server.port) as victim:
        target = Target(server, victim)
        resource.prlimit(server.pid, resource.RLIMIT_AS, (_MOST_ADDRESSES, _MOST_ADDRESSES))
        before = target.resident_bytes()
        yield target
        assert target.answers(), server.stderr()
        beats = victim.beats()
        assert beats.seconds
        assert not beats.wrong, beats.wrong
        assert target.peak_bytes() - before < most_bytes
        assert server.stop() == 0
        assert not _OURS.search(server.stderr()), server.stderr()
