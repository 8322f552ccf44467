"""The listening socket. A poller reads its connections, or the loop where there is none."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from typing import Any

from pykcoord.server._connection import Connection
from pykcoord.server._polling import IS_AVAILABLE, Poller

logger = logging.getLogger("pykcoord.server")

_BACKLOG = 4_096
# Accepted in one iteration of the loop: others are served in between.
_AT_ONCE = 32
# The system or the process has no descriptors or no memory left: what waits, waits on.
_EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
_PAUSE_SECONDS = 1.0


class Listener:
    """Listens on one socket, bound when it is made; `new_connection` makes what serves a client.

    `receive_buffer_bytes`: what the system receives of a connection before it is read; -1: as much
    as it likes. Raises OSError where the address cannot be had.
    """

    def __init__(
        self,
        address: tuple[Any, ...],
        family: int,
        new_connection: Callable[[], Connection],
        receive_buffer_bytes: int = -1,
    ) -> None:
        self._new_connection = new_connection
        self._poller: Poller | None = None
        self._server: asyncio.Server | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._socket = bound_socket(address, family)
        if receive_buffer_bytes >= 0:  # what is accepted has the same
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self.address: tuple[str, int] = self._socket.getsockname()[:2]

    async def start(self) -> None:
        """Begin to accept. Raises OSError where the system has no descriptor for it, or where
        another has begun to listen on the same address since."""
        if not IS_AVAILABLE:
            self._server = await self._loop.create_server(
                self._new_connection, sock=self._socket, backlog=_BACKLOG
            )
            return
        self._socket.listen(_BACKLOG)
        self._poller = Poller(self._loop)
        self._loop.add_reader(self._socket, self._accept)

    def close(self) -> None:
        """Accept no more. Connections live on."""
        if self._server is not None:
            self._server.close()
            return
        if self._retry is not None:
            self._retry.cancel()
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket)
            self._socket.close()

    def end(self) -> None:
        """End what serves connections; those that are left are lost."""
        if self._poller is not None:
            self._poller.close()

    def _accept(self) -> None:
        assert self._poller is not None
        for _ in range(_AT_ONCE):
            try:
                accepted, _ = self._socket.accept()
            except ConnectionAbortedError:
                continue  # gone before it was its turn
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                self._pause(error)
                return
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._poller.add(accepted, self._new_connection())

    def _pause(self, error: OSError) -> None:
        logger.error(
            "no connection can be accepted, the next attempt is in %g s: %s%s",
            _PAUSE_SECONDS,
            error.strerror,
            "; allow more open files (ulimit -n)" if error.errno == errno.EMFILE else "",
            extra={"event": "accept", "reason": error.strerror},
        )
        self._loop.remove_reader(self._socket)
        self._retry = self._loop.call_later(
            _PAUSE_SECONDS, self._loop.add_reader, self._socket, self._accept
        )


def bound_socket(address: tuple[Any, ...], family: int) -> socket.socket:
    """A socket that does not listen yet. Raises OSError where the address cannot be had."""
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:  # as asyncio: an address of the one kind only
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.setblocking(False)
        bound.bind(address)
    except OSError:
        bound.close()
        raise
    return bound
