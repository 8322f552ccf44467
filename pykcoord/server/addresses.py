"""Addresses that are kept for servers of other processes, while those start, and start again.

A socket that is bound and does not listen keeps a port from all who want any that is free, and from
outgoing connections. On Linux the server that it is kept for can bind it all the same, and clients
that connect while that server is away are refused at once.
"""

from __future__ import annotations

import socket
import sys

from pykcoord.server.accepting import bound_socket

__all__ = ["AddressTakenError", "KeptAddresses"]

# Elsewhere a port that is bound cannot be bound again: it is only looked whether it is free.
_CAN_SHARE = sys.platform == "linux"


class KeptAddresses:
    """`count` ports of `host`, from `port` on, or any that are free if `port` is 0.

    Raises AddressTakenError, and OSError for a host that is not known.
    """

    def __init__(self, host: str, port: int, count: int) -> None:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        family, _, _, _, address = found[0]
        self._sockets: list[socket.socket] = []
        self.addresses: list[tuple[str, int]] = []
        try:
            for number in range(count):
                wanted = port + number if port else 0
                self._sockets.append(bound_socket((address[0], wanted, *address[2:]), family))
                self.addresses.append((host, self._sockets[-1].getsockname()[1]))
        except OSError as error:
            self.close()
            raise AddressTakenError((host, wanted), error) from error
        if not _CAN_SHARE:
            self.close()

    def close(self) -> None:
        """Keep them no longer."""
        for one in self._sockets:
            one.close()
        self._sockets.clear()


class AddressTakenError(OSError):
    """`address` cannot be had, for the reason of `errno`."""

    def __init__(self, address: tuple[str, int], error: OSError) -> None:
        super().__init__(error.errno, error.strerror)
        self.address = address
