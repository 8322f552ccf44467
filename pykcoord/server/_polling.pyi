"""Types of the Cython module of the same name."""

import asyncio
import socket

from pykcoord.server._connection import Connection

IS_AVAILABLE: bool

class Poller:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None: ...
    def add(self, socket: socket.socket, connection: Connection) -> None: ...
    def close(self) -> None: ...
