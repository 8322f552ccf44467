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
# Accepted in one iteration of the loop: others are served in between. With what they send and how
# they end, one takes 0.1 ms.
_AT_ONCE = 8
# No descriptors or no memory left, or whatever it is: what waits, waits on.
_PAUSE_SECONDS = 1.0
# Linux passes on what is wrong with the way to who connects, or that a rule forbids it (accept(2)):
# it is said of this one alone.
_OF_ONE = {
    errno.ECONNABORTED, errno.EPERM, errno.EPROTO, errno.ENOPROTOOPT, errno.EOPNOTSUPP,
    errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ETIMEDOUT,
}  # fmt: skip


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
        # What is accepted has the same. As in Kafka, a client that is gone without a word is
        # noticed, however long its request waits.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if receive_buffer_bytes >= 0:
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
        """Whatever fails for one, the next is accepted: what a callback raises ends the server."""
        for _ in range(_AT_ONCE):
            try:
                accepted, _ = self._socket.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _OF_ONE:
                    logger.debug("a connection was not accepted: %s", error.strerror)
                    continue
                self._pause(error)
                return
            try:
                self._serve(accepted)
            except Exception as error:
                self._loop.call_exception_handler(
                    {"message": "a connection failed, and is closed", "exception": error}
                )

    def _serve(self, accepted: socket.socket) -> None:
        assert self._poller is not None
        try:
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = self._new_connection()
        except BaseException:
            accepted.close()
            raise
        self._poller.add(accepted, connection)

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
