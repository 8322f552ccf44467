"""The supervisor: so many hosts, each started again when it ends. A thread per host.

One launch per host, so that one that fails takes none with it. What a launch is (a Spark job, a
process) is not known here, and nothing of shards either.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from pykcoord.clock import monotonic_seconds

__all__ = ["Supervisor"]

logger = logging.getLogger("pykcoord.cluster")

_PAUSE_SECONDS = (0.1, 5.0)
# A host that lived so long is started again without delay.
_LIVED_SECONDS = 10.0
# So many failures at once of each host mean that none will start.
_HOPELESS = 3
# How much is shown of what a launch raised.
_LONGEST = 300
# Outcomes after which a host is not started again.
_FINAL = frozenset({"stopped", "superseded"})


class Supervisor:
    """Keeps `hosts` hosts running. `launch(slot)` runs one and returns its outcome, or raises: see
    `run_host`. `reason_of(error)` is what a person needs to know of what it raised."""

    def __init__(
        self,
        launch: Callable[[int], str],
        hosts: int,
        reason_of: Callable[[Exception], str] = str,
    ) -> None:
        self._launch = launch
        self._reason_of = reason_of
        self._quitting = threading.Event()
        self._failures: dict[int, str] = {}
        self._in_a_row = [0] * hosts
        self._threads = [
            threading.Thread(
                target=self._supervise, args=(slot,), name=f"pykcoord-host-{slot}", daemon=True
            )
            for slot in range(hosts)
        ]

    def start(self) -> None:
        """Launch all hosts."""
        for thread in self._threads:
            thread.start()

    def quit(self) -> None:
        """Start none again from now on."""
        self._quitting.set()

    def join(self, timeout_seconds: float) -> bool:
        """Wait until no host runs; False if that takes too long."""
        deadline = monotonic_seconds() + timeout_seconds
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(max(0.0, deadline - monotonic_seconds()))
        return not any(thread.is_alive() for thread in self._threads)

    def failures(self) -> dict[int, str]:
        """How hosts failed last, by slot: one line each."""
        return dict(self._failures)

    def is_hopeless(self) -> bool:
        """Whether every host has failed at its start, again and again."""
        return min(self._in_a_row) >= _HOPELESS

    def _supervise(self, slot: int) -> None:
        shortest, longest = _PAUSE_SECONDS
        pause = shortest
        while not self._quitting.is_set():
            started = monotonic_seconds()
            try:
                outcome = self._launch(slot)
            except Exception as error:
                if self._quitting.is_set():
                    return
                outcome = _one_line(self._reason_of(error))
                self._failures[slot] = outcome
                logger.warning("host in slot %d failed: %s", slot, outcome)
            if outcome in _FINAL:
                return
            self._in_a_row[slot] += 1
            if monotonic_seconds() - started > _LIVED_SECONDS:
                pause, self._in_a_row[slot] = shortest, 0
            self._quitting.wait(pause)
            pause = min(2 * pause, longest)


def _one_line(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
