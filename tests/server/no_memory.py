"""A long frame for which there is no memory: run in a process of its own, whose memory is bounded.
Ends with 0 where nothing of it is counted any more."""

from __future__ import annotations

import resource
import struct
from pathlib import Path
from typing import Any

from pykcoord.server._connection import Connection, Hub
from pykcoord.session import EMBEDDED

_PIECE = bytes(1 << 20)
_MORE_BYTES = 4 << 20


class Nothing:
    """A handler and a transport that do nothing."""

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: None


def main() -> int:
    hub = Hub(
        Nothing(), lambda: 0.0, max_frame_bytes=1 << 30, max_connections=9,
        max_connections_per_ip=9, max_connections_by_ip={},
    )  # fmt: skip
    connection = Connection(hub, lambda peername: ("", EMBEDDED))
    connection.connection_made(Nothing())
    connection.data_received(struct.pack(">ihhi", 500 << 20, 11, 5, 1) + _PIECE)
    assert hub.halves.bytes > len(_PIECE)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + _MORE_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    try:
        for _ in range(100):
            connection.data_received(_PIECE)
    except MemoryError:
        connection.connection_lost(None)
        return 1 if hub.halves.bytes or len(hub.halves) else 0
    return 2


if __name__ == "__main__":
    raise SystemExit(main())
