"""Addresses of servers: what is said of one that cannot be had, and those that are kept for servers
of other processes, while those start, and start again.

A socket that is bound and does not listen keeps a port from all who want any that is free, and from
outgoing connections. On Linux the server that it is kept for can bind it all the same, and clients
that connect while that server is away are refused at once.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import sys
from collections.abc import Iterator

from pykcoord.addresses import address_text
from pykcoord.errors import KcoordError
from pykcoord.server.accepting import bound_socket

__all__ = ["AddressError", "AddressTakenError", "KeptAddresses", "naming_address"]

# Elsewhere a port that is bound cannot be bound again: it is only looked whether it is free.
_CAN_SHARE = sys.platform == "linux"


class AddressError(KcoordError):
    """An address cannot be had: `str` names the option and the reason, `errno` is the system's."""

    def __init__(self, text: str, errno: int | None) -> None:
        super().__init__(text)
        self.errno = errno


@contextlib.contextmanager
def naming_address(option: str, address: tuple[str, int]) -> Iterator[None]:
    """An error of an address names the option that asked for it: AddressError."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            reason = "address already in use; take another port, or 0 for a free one"
        elif error.errno == errno.EADDRNOTAVAIL:
            reason = "no address of this machine"
            if option == "--listen":
                reason += "; where clients are told to connect is --advertise"
        else:
            reason = error.strerror or str(error)
        text = f"{option} {address_text(*address)}: {reason}"
        raise AddressError(text, error.errno) from error


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
