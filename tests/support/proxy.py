"""A TCP proxy whose link can be cut, either way or both, without a word to anybody; it may be the
end of TLS."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from pathlib import Path
from typing import Self

_BYTES = 65_536


class Proxy:
    """Listens on a port of this machine, `port`, and hands on to `to`. While `there` or `back` is
    cut, what goes that way is dropped: connections stay, and nobody hears of it. With `certificate`
    (PEM, with its key) it is spoken to by TLS. For any thread."""

    def __init__(self, to: tuple[str, int], port: int = 0, certificate: Path | None = None) -> None:
        self._to = to
        self._tls: ssl.SSLContext | None = None
        if certificate is not None:
            self._tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            self._tls.load_cert_chain(certificate)
        self._cut: set[str] = set()
        self._loop = asyncio.new_event_loop()
        self._stopped = asyncio.Event()
        self._listening = threading.Event()
        self._wanted = port
        self.port = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._listening.wait()

    def cut(self, *ways: str) -> None:
        """Drop what goes `there`, `back`, or (given neither) both."""
        self._cut |= {*ways} or {"there", "back"}

    def join(self) -> None:
        """Hand on all again. What was dropped stays away: connections of before are closed, as they
        have a hole."""
        was_cut, self._cut = self._cut, set()
        if was_cut:
            self._loop.call_soon_threadsafe(self._close_all)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _run(self) -> None:
        self._writers: set[asyncio.StreamWriter] = set()
        with contextlib.closing(self._loop):
            self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        server = await asyncio.start_server(
            self._connected, "127.0.0.1", self._wanted, ssl=self._tls
        )
        self.port = server.sockets[0].getsockname()[1]
        self._listening.set()
        await self._stopped.wait()
        server.close()
        self._close_all()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _close_all(self) -> None:
        for writer in self._writers:
            writer.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            back, there = await asyncio.open_connection(*self._to)
        except OSError:
            writer.transport.abort()
            self._writers.discard(writer)
            return
        self._writers.add(there)
        ways = [
            asyncio.ensure_future(self._hand_on(reader, there, "there")),
            asyncio.ensure_future(self._hand_on(back, writer, "back")),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in ways:
                one.cancel()
            for end in (writer, there):
                end.close()
                self._writers.discard(end)

    async def _hand_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: str
    ) -> None:
        with contextlib.suppress(OSError):
            while content := await reader.read(_BYTES):
                if way not in self._cut:
                    writer.write(content)
                    await writer.drain()
