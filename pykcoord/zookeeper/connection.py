"""A session with ZooKeeper on one socket, for many requests at a time.

For what reads much (`pykcoord zookeeper`) and for members by the hundred (`pykcoord lab`), where
kazoo's threads for each session would be what is measured. A session that ends is not taken up
again: every request then raises NoSessionError.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from pykcoord.zookeeper import wire
from pykcoord.zookeeper.errors import NoSessionError, ZooKeeperError
from pykcoord.zookeeper.operations import Get, Node, Operation, Revoke, Session, Steps

_CONNECT_SECONDS = 10.0
_CHUNK_BYTES = 256 * 1024
_LAST_XID = 2**31 - 1
# Reads that are sent in one go, and how many such are on their way at a time.
_BULK = 1_000
_BULKS_IN_FLIGHT = 4
WatchListener = Callable[[str], None]


def split_connect(connect: str) -> tuple[list[tuple[str, int]], str]:
    """Hosts with ports, and chroot ("" without one), of `host:port,host:port/chroot`. Raises
    NoSessionError for what is no such text."""
    servers, slash, chroot = connect.partition("/")
    hosts = []
    for server in servers.split(","):
        host, colon, port = server.strip().rpartition(":")
        if not colon:
            host, port = port, "2181"
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise NoSessionError(connect, f"{server!r} is not HOST:PORT")
        hosts.append((host.strip("[]"), int(port)))
    return hosts, (slash + chroot).rstrip("/")


class GetMany(NamedTuple):
    """The data of many paths, in one request. Answer: a Node or a ZooKeeperError for each."""

    paths: Sequence[str]


class _Bulk(NamedTuple):
    first_xid: int
    paths: Sequence[str]
    done: asyncio.Future[list[Node | ZooKeeperError]]
    answers: list[Node | ZooKeeperError]


class Connection:
    """One session. Made by `Connection.begin`; not thread-safe."""

    def __init__(self, connect: str, chroot: str, on_watch: WatchListener | None) -> None:
        self.session_id = 0
        self.requests = 0
        """How many requests were sent, without pings."""
        self.watches_fired = 0
        self._connect = connect
        self._chroot = chroot
        self._on_watch = on_watch
        self._waiting: dict[int, tuple[Operation | GetMany, asyncio.Future[Any]]] = {}
        # Reads of many, answered in the order in which they were sent.
        self._bulks: deque[_Bulk] = deque()
        self._xid = 0
        self._knows_multi_read: bool | None = None
        self._end: NoSessionError | None = None
        self._tasks: list[asyncio.Task[None]] = []

    @classmethod
    async def begin(
        cls,
        connect: str,
        *,
        session_timeout_ms: int = 10_000,
        on_watch: WatchListener | None = None,
        timeout_seconds: float = _CONNECT_SECONDS,
    ) -> Connection:
        """Connect to the first server that serves. Raises NoSessionError, which names
        `connect`."""
        hosts, chroot = split_connect(connect)
        reason = ""
        for host, port in hosts:
            connection = cls(connect, chroot, on_watch)
            try:
                async with asyncio.timeout(timeout_seconds):
                    await connection._begin(host, port, session_timeout_ms)
            except (OSError, TimeoutError, asyncio.IncompleteReadError, wire.FrameError) as error:
                reason = f"{host}:{port}: {str(error) or type(error).__name__}"
                await connection.abandon()
                continue
            return connection
        raise NoSessionError(connect, f"no ZooKeeper server answers ({reason})")

    async def ask(self, operation: Operation | GetMany) -> Any:
        """The answer of one operation. Raises what `operations.py` says of it, and
        NoSessionError."""
        future = self.send(operation)
        await self._writer.drain()
        return await future

    def send(self, operation: Operation | GetMany) -> asyncio.Future[Any]:
        """Send an operation without waiting for room; its answer comes into the future."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self._end is not None:
            future.set_exception(self._end)
        elif isinstance(operation, Session):
            future.set_result(self.session_id)
        else:
            self._xid = self._xid % _LAST_XID + 1
            self.requests += 1
            self._waiting[self._xid] = (operation, future)
            assert not isinstance(operation, Revoke)
            asked: Any = operation
            if isinstance(operation, GetMany):
                whole = [self._chroot + path for path in operation.paths]
                self._writer.write(wire.multi_read_frame(self._xid, whole))
                return future
            if self._chroot:
                asked = operation._replace(path=self._chroot + operation.path)
            self._writer.write(wire.request_frame(self._xid, asked))
        return future

    async def ask_all(self, operations: Iterable[Operation], at_once: int = 2_000) -> list[Any]:
        """The answers of many operations, with exceptions in their place."""
        answers: list[Any] = []
        batch: list[asyncio.Future[Any]] = []
        for operation in operations:
            batch.append(self.send(operation))
            if len(batch) == at_once:
                await self._writer.drain()
                answers += await asyncio.gather(*batch, return_exceptions=True)
                batch = []
        answers += await asyncio.gather(*batch, return_exceptions=True)
        return answers

    async def get_all(self, paths: Sequence[str]) -> list[Node | ZooKeeperError]:
        """The nodes at many paths, or what refuses each. Raises NoSessionError."""
        if len(paths) > _BULK and await self._reads_many():
            return await self._multi_read(paths)
        answers: list[Node | ZooKeeperError] = []
        sent: deque[_Bulk] = deque()
        for begin in range(0, len(paths), _BULK):
            sent.append(self._send_bulk(paths[begin : begin + _BULK]))
            await self._writer.drain()
            if len(sent) == _BULKS_IN_FLIGHT:
                answers += await sent.popleft().done
        while sent:
            answers += await sent.popleft().done
        return answers

    async def _reads_many(self) -> bool:
        """Whether the server knows multiRead. One before 3.6 ends the session that asks for it, so
        another one asks."""
        if self._knows_multi_read is None:
            try:
                async with await Connection.begin(self._connect) as other:
                    await other.ask(GetMany(["/"]))
                self._knows_multi_read = True
            except ZooKeeperError:
                self._knows_multi_read = False
        return self._knows_multi_read

    async def _multi_read(self, paths: Sequence[str]) -> list[Node | ZooKeeperError]:
        answers: list[Node | ZooKeeperError] = []
        sent: deque[asyncio.Future[list[Node | ZooKeeperError]]] = deque()
        for begin in range(0, len(paths), _BULK):
            sent.append(self.send(GetMany(paths[begin : begin + _BULK])))
            await self._writer.drain()
            if len(sent) == _BULKS_IN_FLIGHT:
                answers += await sent.popleft()
        while sent:
            answers += await sent.popleft()
        return answers

    def _send_bulk(self, paths: Sequence[str]) -> _Bulk:
        if self._xid > _LAST_XID - len(paths):
            self._xid = 0
        bulk = _Bulk(self._xid + 1, paths, asyncio.get_running_loop().create_future(), [])
        if self._end is not None:
            bulk.done.set_exception(self._end)
            return bulk
        self._xid += len(paths)
        self.requests += len(paths)
        self._bulks.append(bulk)
        whole = [self._chroot + path for path in paths] if self._chroot else paths
        self._writer.write(wire.get_frames(bulk.first_xid, whole))
        return bulk

    async def run(self, steps: Steps[Any], on_revoke: Callable[[], None] = lambda: None) -> Any:
        """Do what a generator of operations asks for; returns what it returns."""
        answer: Any = None
        error: Exception | None = None
        while True:
            try:
                operation = steps.send(answer) if error is None else steps.throw(error)
            except StopIteration as stop:
                return stop.value
            answer, error = None, None
            if isinstance(operation, Revoke):
                on_revoke()
                continue
            try:
                answer = await self.ask(operation)
            except NoSessionError:
                steps.close()
                raise
            except Exception as raised:  # for the generator to judge
                error = raised

    async def close(self) -> None:
        """End the session: its ephemeral znodes go with it."""
        if self._end is None:
            self.requests += 1
            self._writer.write(wire.CLOSE)
            try:
                async with asyncio.timeout(_CONNECT_SECONDS):
                    await asyncio.gather(self._tasks[0], return_exceptions=True)
            except TimeoutError:
                pass
        await self.abandon()

    async def abandon(self) -> None:
        """Drop the connection. The session lives on until its timeout."""
        self._finish("the session was closed")
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if (writer := getattr(self, "_writer", None)) is not None:
            writer.close()

    async def __aenter__(self) -> Connection:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.close()

    async def _begin(self, host: str, port: int, session_timeout_ms: int) -> None:
        self._reader, self._writer = await asyncio.open_connection(host, port)
        self._writer.write(wire.connect_frame(session_timeout_ms))
        (size,) = struct.unpack(">i", await self._reader.readexactly(4))
        if not 0 < size <= wire.MAX_FRAME_BYTES:
            raise wire.FrameError(f"{host}:{port}", "is no ZooKeeper")
        timeout_ms, self.session_id = wire.read_connected(await self._reader.readexactly(size))
        if not timeout_ms:
            raise wire.FrameError(f"{host}:{port}", "refused the session")
        self._tasks = [
            asyncio.create_task(self._read()),
            asyncio.create_task(self._ping(timeout_ms / 3000)),
        ]

    async def _ping(self, period_seconds: float) -> None:
        while True:
            await asyncio.sleep(period_seconds)
            self._writer.write(wire.PING)

    async def _read(self) -> None:
        buffer = bytearray()
        try:
            while chunk := await self._reader.read(_CHUNK_BYTES):
                buffer += chunk
                at = 0
                while len(buffer) - at >= 4:
                    size = int.from_bytes(buffer[at : at + 4], "big")
                    if size > wire.MAX_FRAME_BYTES:
                        raise wire.FrameError(self._connect, f"a frame of {size} bytes")
                    if len(buffer) - at - 4 < size:
                        break
                    self._take(bytes(buffer[at + 4 : at + 4 + size]))
                    at += 4 + size
                del buffer[:at]
            self._finish("the server has closed the connection")
        except (OSError, wire.FrameError, struct.error) as error:
            self._finish(str(error))

    def _take(self, frame: bytes) -> None:
        xid, error = wire.read_header(frame)
        if xid == wire.WATCH_XID:
            kind, path = wire.read_watch(frame)
            if kind > 0:
                self.watches_fired += 1
                if self._on_watch is not None:
                    self._on_watch(path.removeprefix(self._chroot))
            return
        if self._bulks and 0 <= xid - self._bulks[0].first_xid < len(self._bulks[0].paths):
            self._take_of_bulk(self._bulks[0], xid, error, frame)
            return
        operation, future = self._waiting.pop(xid, (None, None))
        if operation is None or future is None or future.done():
            return
        if error == wire.SESSION_EXPIRED:
            self._finish("the session has expired")
            future.set_exception(NoSessionError(self._connect, "the session has expired"))
            return
        try:
            if isinstance(operation, GetMany):
                if error:
                    raise wire.refusal(self._connect, error)
                future.set_result(wire.read_multi(frame, operation.paths))
                return
            future.set_result(wire.read_answer(operation, error, frame))
        except Exception as raised:
            future.set_exception(raised)

    def _take_of_bulk(self, bulk: _Bulk, xid: int, error: int, frame: bytes) -> None:
        if error == wire.SESSION_EXPIRED:
            self._finish("the session has expired")
            return
        operation = Get(bulk.paths[xid - bulk.first_xid], False)
        try:
            bulk.answers.append(wire.read_answer(operation, error, frame))
        except ZooKeeperError as refusal:
            bulk.answers.append(refusal)
        if len(bulk.answers) == len(bulk.paths):
            self._bulks.popleft()
            if not bulk.done.done():
                bulk.done.set_result(bulk.answers)

    def _finish(self, reason: str) -> None:
        self._end = self._end or NoSessionError(self._connect, reason)
        waiting, self._waiting = self._waiting, {}
        futures: list[asyncio.Future[Any]] = [future for _, future in waiting.values()]
        futures += [bulk.done for bulk in self._bulks]
        self._bulks.clear()
        for future in futures:
            if not future.done():
                future.set_exception(self._end)
