"""Free TCP ports of the loopback interface. Must never hand out a port below 20000."""

from __future__ import annotations

import socket


def free_port(*, adjacent: int = 0) -> int:
    """Returns a port that was free a moment ago, with the `adjacent` ports above it free too."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
        if port >= 20000 and all(_is_free(port + step) for step in range(1, adjacent + 1)):
            return port


def _is_free(port: int) -> bool:
    if port > 65535:
        return False
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
