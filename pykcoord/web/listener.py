"""The console on its own thread, with a loop of its own: browsers come and go beside the engine."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from pykcoord.errors import MissingExtraError

try:
    import uvicorn

    from pykcoord.web.app import Application
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] not in ("starlette", "uvicorn", "anyio", "h11"):
        raise
    raise MissingExtraError(
        "the console needs Starlette and uvicorn: pip install 'pykcoord[web]'", name=error.name
    ) from None

from pykcoord.addresses import address_text
from pykcoord.web.options import WebOptions
from pykcoord.web.reading import Reads
from pykcoord.web.source import Source

__all__ = ["Console", "serve_console"]

logger = logging.getLogger("pykcoord.web")

_START_SECONDS = 30.0
_STOP_SECONDS = 15.0
# Connections and requests together.
_MOST_AT_ONCE = 1_200
_IDLE_SECONDS = 30
_MOST_HEAD_BYTES = 65_536


class Console:
    """A console that runs. `url` is its address."""

    def __init__(self, url: str, server: uvicorn.Server, application: Application) -> None:
        self.url = url
        self._server = server
        self._application = application
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready = threading.Event()
        self.failure: BaseException | None = None
        """What ended it, if it did not end as it should."""

    def run(self, listener: socket.socket) -> None:
        """Serve until `close`, on this thread."""
        try:
            asyncio.run(self._serve(listener))
        except BaseException as error:
            self.failure = error
            logger.error("the console ended: %r", error, extra={"event": "web_failure"})
        finally:
            self._ready.set()
            listener.close()

    def wait_ready(self) -> None:
        """Returns once it is served, or has failed."""
        self._ready.wait(_START_SECONDS)

    def close(self) -> None:
        """End it: streams end, answers on their way have a second. From any thread."""
        if self._loop is not None:
            with suppress(RuntimeError):  # it has ended
                self._loop.call_soon_threadsafe(self._application.feed.end)
        self._server.should_exit = True

    async def _serve(self, listener: socket.socket) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop.call_soon(self._ready.set)
        await self._server.serve(sockets=[listener])


@contextmanager
def serve_console(
    source: Source, options: WebOptions, now_ms: Callable[[], int], reading: Reads | None = None
) -> Iterator[Console]:
    """Serve the console of `source` within. `now_ms` is the clock, `reading` reads groups in
    another way than by requests. Raises ConfigError where the options are not safe, and OSError
    where the address cannot be had."""
    options.check()
    listener = _listening(options.listen)
    try:
        application = Application(source, options, now_ms, reading)
        shown = address_text(options.listen[0], listener.getsockname()[1])
        console = Console(f"http://{shown}/", _server(application), application)
    except BaseException:
        listener.close()
        raise
    thread = threading.Thread(
        target=console.run, args=(listener,), name="pykcoord-web", daemon=True
    )
    thread.start()
    try:
        console.wait_ready()
        yield console
    finally:
        console.close()
        thread.join(_STOP_SECONDS)


def _server(application: Application) -> uvicorn.Server:
    return uvicorn.Server(
        uvicorn.Config(
            application.starlette,
            http="h11",
            ws="none",
            lifespan="on",
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=_MOST_AT_ONCE,
            timeout_keep_alive=_IDLE_SECONDS,
            timeout_graceful_shutdown=1,
            h11_max_incomplete_event_size=_MOST_HEAD_BYTES,
        )
    )


def _listening(listen: tuple[str, int]) -> socket.socket:
    host, port = listen
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, _, _, _, address = found[0]
    return socket.create_server(address[:2], family=family, backlog=512)
