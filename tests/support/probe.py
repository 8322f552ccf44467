"""A client that commits again and again for one group, and remembers the times of the answers. It
speaks the protocol itself, with timeouts of its own, so that every gap is due to the cluster.
"""

from __future__ import annotations

import itertools
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from support.hosting import commit_fields
from support.kio_client import decode, encode

_FAILURE_SECONDS = 0.02


class Probe:
    """Commits rising offsets for `group_id` until `stop`. Whenever it connects again, it checks
    that everything acknowledged is there; `lost` lists what is not. `bootstrap()` gives (host,
    port)s; a request without an answer in `timeout_seconds` is tried elsewhere. It waits
    `pause_seconds` after an answer: gaps are as exact as that, and other probes have that much
    room."""

    def __init__(
        self,
        group_id: str,
        bootstrap: Callable[[], Sequence[tuple[str, int]]],
        timeout_seconds: float = 0.5,
        pause_seconds: float = 0.02,
    ) -> None:
        self.group_id = group_id
        self.acknowledged = -1
        self.tried = -1
        self.times: list[float] = []
        self.latencies: list[float] = []
        self.failures: list[tuple[float, str]] = []
        self.lost: list[str] = []
        self._bootstrap = bootstrap
        self._timeout_seconds = timeout_seconds
        self._pause_seconds = pause_seconds
        self._quitting = threading.Event()
        self._socket: socket.socket | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._quitting.set()
        self._thread.join()

    def longest_gap(self, since: float) -> float:
        """The longest time without an answer, in seconds, from `since` (monotonic) on."""
        return max(b - a for a, b in self.gaps(since))

    def gaps(self, since: float) -> list[tuple[float, float]]:
        """From one answer to the next, from `since` on (monotonic)."""
        before = [at for at in self.times if at < since][-1:] or [since]
        times = [*before, *(at for at in self.times if at >= since), time.monotonic()]
        return [*itertools.pairwise(times)]

    @property
    def failed_at(self) -> float:
        """When it was refused or not answered last (monotonic); 0 if never."""
        return self.failures[-1][0] if self.failures else 0.0

    def told(self, since: float) -> str:
        """The errors from `since` on, for people: when, in seconds, and how."""
        failures = [f"{at - since:.2f} {text}" for at, text in self.failures if at >= since]
        return f"{self.group_id}: {', '.join(failures)}"

    def _failed(self, text: str) -> None:
        self.failures.append((time.monotonic(), text))

    def _run(self) -> None:
        while not self._quitting.wait(self._pause_seconds):
            self.tried += 1
            started = time.monotonic()
            try:
                response = self._ask(8, 7, **commit_fields(self.group_id, self.tried))
                code = response.topics[0].partitions[0].error_code
                if code == 0:
                    self.acknowledged = self.tried
                    self.times.append(time.monotonic())
                    self.latencies.append(self.times[-1] - started)
                    continue
                self._failed(str(code))
            except (OSError, AssertionError) as error:
                self._failed(repr(error))
            self._forget()
            time.sleep(_FAILURE_SECONDS)
        self._forget()

    def _ask(self, key: int, version: int, /, **fields: Any) -> Any:
        if self._socket is None:
            self._socket = self._find()
            self._look_for_losses(self._socket)
        return self._exchange(self._socket, key, version, **fields)

    def _look_for_losses(self, at: socket.socket) -> None:
        """The coordinator of now must know the last commit that was acknowledged."""
        topics = [{"name": "orders", "partition_indexes": (0,)}]
        fields = {"group_id": self.group_id, "topics": topics, "require_stable": False}
        response = self._exchange(at, 9, 7, **fields)
        if response.error_code:
            raise ConnectionError(f"error {response.error_code}")
        found = response.topics[0].partitions[0].committed_offset
        if found < self.acknowledged:
            self.lost.append(f"{self.acknowledged} was acknowledged, {found} is there")

    def _find(self) -> socket.socket:
        """A connection to the coordinator, as any node names it."""
        error: Exception = ConnectionError("no host")
        for address in self._bootstrap():
            try:
                with self._connect(address) as asked:
                    found = self._exchange(asked, 10, 2, key=self.group_id, key_type=0)
                if found.error_code == 0:
                    return self._connect((found.host, found.port))
                error = ConnectionError(f"error {found.error_code}")
            except OSError as failed:
                error = failed
        raise error

    def _connect(self, address: tuple[str, int]) -> socket.socket:
        return socket.create_connection(address, self._timeout_seconds)

    def _exchange(self, at: socket.socket, key: int, version: int, /, **fields: Any) -> Any:
        at.settimeout(self._timeout_seconds)
        at.sendall(encode(key, version, **fields))
        (size,) = struct.unpack(">i", _exactly(at, 4))
        return decode(key, version, _exactly(at, size))

    def _forget(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _exactly(at: socket.socket, size: int) -> bytes:
    content = b""
    while len(content) < size:
        part = at.recv(size - len(content))
        if not part:
            raise ConnectionError("closed")
        content += part
    return content
