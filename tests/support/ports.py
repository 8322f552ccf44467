"""TCP ports of the loopback interface for servers that come back on the port they had. They lie
below those that the system gives to connections and to port 0, so that none is taken while its
server is away. It never hands out a port below 20000, nor one again before all others.
"""

from __future__ import annotations

import os
import random
import socket
from collections import deque
from functools import cache
from pathlib import Path

_LOWEST = 20_000
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LINUX_FIRST_EPHEMERAL = 32_768
_MOST_ADJACENT = 2


def free_port(*, adjacent: int = 0) -> int:
    """Returns a port that is free, with the `adjacent` ports above it free too."""
    assert adjacent <= _MOST_ADJACENT, adjacent
    ports = _ports()
    for _ in range(len(ports)):
        ports.rotate(-1)
        port = ports[-1]
        if all(_is_free(port + step) for step in range(adjacent + 1)):
            return port
    raise OSError(f"no port from {_LOWEST} to {_first_ephemeral() - 1} is left")


@cache
def _ports() -> deque[int]:
    """This process's own share of the ports, in an order that hardly another run has."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    step = 1 + _MOST_ADJACENT
    share = list(range(_LOWEST, _first_ephemeral() - step, step))[worker::workers]
    random.Random(os.getpid()).shuffle(share)
    return deque(share)


def _first_ephemeral() -> int:
    first = int(_RANGE.read_text().split()[0]) if _RANGE.exists() else _LINUX_FIRST_EPHEMERAL
    return first if first > _LOWEST + 1_000 else 65_536


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As servers do: connections that ended a moment ago do not hold a port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
