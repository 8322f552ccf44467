"""Ends the processes that tests started when the tests themselves are ended: by a timeout, which
exits without any clean-up, or by SIGKILL.

A small process of its own reads the running processes from a pipe, and kills them when the pipe is
closed. It must never touch a process that was not named to it, nor one that was reported to have
ended.
"""

from __future__ import annotations

import atexit
import functools
import subprocess
import sys

_STOP_TIMEOUT_S = 30.0
_GUARD = """
import os, signal, sys
running = set()
for line in sys.stdin:
    pid = int(line)
    if pid > 0:
        running.add(pid)
    else:
        running.discard(-pid)
for pid in running:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
"""


def started(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    """From now on `process`, which leads a session of its own, does not outlive this one."""
    _tell(process.pid)


def ended(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    """`process` was waited for: its id may belong to another soon."""
    _tell(-process.pid)


def _tell(number: int) -> None:
    guard = _guard()
    assert guard.stdin is not None
    guard.stdin.write(f"{number}\n")
    guard.stdin.flush()


@functools.cache
def _guard() -> subprocess.Popen[str]:
    guard = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _GUARD],
        stdin=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    atexit.register(guard.communicate, timeout=_STOP_TIMEOUT_S)
    return guard
