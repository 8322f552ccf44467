"""The supervisor: so many hosts, each started again when it ends. A thread per host.

One launch per host, so that one that fails takes none with it. What a launch is (a Spark job, a
process) is not known here, and nothing of shards either.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable

__all__ = ["Supervisor"]

logger = logging.getLogger("pykcoord.hosting")

_PAUSE_SECONDS = (0.1, 5.0)
# A host that lived so long is started again without delay.
_LIVED_SECONDS = 10.0
# How often each host fails at once before nobody expects one to start.
_HOPELESS = 3
# An exception in the text of another, and how much of it is shown.
_RAISED = re.compile(r"[A-Za-z_][\w.]*(Error|Exception): .")
_LONGEST = 300
# Outcomes after which a host is not started again.
_FINAL = frozenset({"stopped", "superseded"})


class Supervisor:
    """`launch(slot)` runs one host and returns its outcome, or raises: see `run_host`."""

    def __init__(self, launch: Callable[[int], str], hosts: int) -> None:
        self._launch = launch
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
        deadline = time.monotonic() + timeout_seconds
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(max(0.0, deadline - time.monotonic()))
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
            started = time.monotonic()
            try:
                outcome = self._launch(slot)
            except Exception as error:
                if self._quitting.is_set():
                    return
                outcome = _one_line(error)
                self._failures[slot] = outcome
                logger.warning("host in slot %d failed: %s", slot, outcome)
            if outcome in _FINAL:
                return
            self._in_a_row[slot] += 1
            if time.monotonic() - started > _LIVED_SECONDS:
                pause, self._in_a_row[slot] = shortest, 0
            self._quitting.wait(pause)
            pause = min(2 * pause, longest)


def _one_line(error: Exception) -> str:
    """What a person needs of it: Spark's errors go on for pages. What a worker raised ends its
    traceback; else the first that Java threw says it."""
    lines = [line.strip(" :\t") for line in str(error).splitlines()]
    raised = [line for line in lines if _RAISED.match(line)]
    python = [line for line in raised if not line.startswith(("org.", "java.", "py4j."))]
    text = python[-1] if python else raised[0] if raised else " ".join(str(error).split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
