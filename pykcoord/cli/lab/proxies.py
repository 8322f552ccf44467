"""TCP proxies that delay, hold or cut what goes through them, on a thread of their own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable

from pykcoord.clock import monotonic_seconds

_CHUNK_BYTES = 65536


class Proxies:
    """Proxies on 127.0.0.1 before targets there. Use as a context manager; every method may be
    called from any thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._delay_seconds = 0.0
        self._open = asyncio.Event()
        self._open.set()
        self._writers: set[asyncio.StreamWriter] = set()

    def __enter__(self) -> Proxies:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def before(self, targets: list[int]) -> list[int]:
        """The port of a new proxy before each target port."""
        return [self._listen(target) for target in targets]

    def delay(self, seconds: float) -> None:
        """From now on, what targets say comes so much later."""
        self._loop.call_soon_threadsafe(setattr, self, "_delay_seconds", seconds)

    def hold(self) -> None:
        """From now on, nothing goes through, in either direction. Connections stay."""
        self._loop.call_soon_threadsafe(self._open.clear)

    def cut(self) -> None:
        """Break all connections, and let new ones through."""

        def cut() -> None:
            for writer in self._writers:
                writer.transport.abort()
            self._open.set()

        self._loop.call_soon_threadsafe(cut)

    def _do(self, what: Awaitable[int | None]) -> int:
        async def done() -> int:
            return await what or 0

        return asyncio.run_coroutine_threadsafe(done(), self._loop).result(30)

    def _listen(self, target: int) -> int:
        async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                upstream, sink = await asyncio.open_connection("127.0.0.1", target)
            except OSError:
                writer.close()
                return
            pair = {writer, sink}
            self._writers |= pair
            await asyncio.gather(self._forward(reader, sink, False),
                                 self._forward(upstream, writer, True))  # fmt: skip
            self._writers -= pair

        async def listen() -> int:
            server = await asyncio.start_server(client, "127.0.0.1", 0)
            port: int = server.sockets[0].getsockname()[1]
            return port

        return self._do(listen())

    async def _forward(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, delayed: bool
    ) -> None:
        line: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def read() -> None:
            try:
                while chunk := await source.read(_CHUNK_BYTES):
                    late = self._delay_seconds if delayed else 0.0
                    line.put_nowait((monotonic_seconds() + late, chunk))
            except OSError:
                pass
            line.put_nowait((0.0, b""))

        reader = asyncio.create_task(read())
        try:
            while True:
                due, chunk = await line.get()
                if not chunk:
                    break
                await asyncio.sleep(max(0.0, due - monotonic_seconds()))
                await self._open.wait()
                sink.write(chunk)
                await sink.drain()
        except OSError:
            pass
        finally:
            reader.cancel()
            sink.close()

    async def _end(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
