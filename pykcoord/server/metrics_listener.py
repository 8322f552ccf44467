"""The metrics over HTTP, as Prometheus scrapes them: a thread with a loop of its own.

Only the samples are taken on the server's loop (metrics.py), at a bounded rate. Connections are
bounded in number, size and time; where there are too many, the one that is the oldest gives way,
so that a scraper is heard beside any number of clients that send nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from http import HTTPStatus

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from pykcoord.addresses import address_text

logger = logging.getLogger("pykcoord.server")

MAX_CONNECTIONS = 32
# Of a request's line and headers together.
MAX_REQUEST_BYTES = 8_192
# For the whole request to arrive, and for the whole answer to leave.
REQUEST_SECONDS = 5.0
ANSWER_SECONDS = 10.0
# Between two samples: the server's loop is asked no more often, however many scrape.
_SAMPLE_SECONDS = 0.05
_STOP_SECONDS = 5.0
_PATHS = ("/", "/metrics")


@contextlib.contextmanager
def serve_metrics(registry: CollectorRegistry, listen: tuple[str, int]) -> Iterator[str]:
    """Serve the metrics of `registry` on `listen` (host, port; port 0 takes a free one).

    Yields the URL. Raises OSError where the address cannot be had.
    """
    listener = _listening(listen)
    server = _MetricsServer(registry)
    thread = threading.Thread(target=server.run, args=(listener,), name="metrics", daemon=True)
    thread.start()
    try:
        yield f"http://{address_text(listen[0], listener.getsockname()[1])}/metrics"
    finally:
        server.stop()
        thread.join(_STOP_SECONDS)


def _listening(listen: tuple[str, int]) -> socket.socket:
    host, port = listen
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, _, _, _, address = found[0]
    return socket.create_server(address[:2], family=family, backlog=128)


class _Refusal(Exception):
    """A request that is answered by its status alone."""

    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status.phrase)
        self.status = status


class _MetricsServer:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._loop = asyncio.new_event_loop()
        self._stopped = asyncio.Event()
        self._open = 0
        # Those whose request is not whole, the oldest first.
        self._asking: dict[asyncio.StreamWriter, None] = {}
        self._sampling = asyncio.Lock()

    def run(self, listener: socket.socket) -> None:
        """Serve until `stop`, on this thread."""
        with contextlib.closing(self._loop):
            self._loop.run_until_complete(self._serve(listener))

    def stop(self) -> None:
        """End; from any thread."""
        with contextlib.suppress(RuntimeError):  # it has ended already
            self._loop.call_soon_threadsafe(self._stopped.set)

    async def _serve(self, listener: socket.socket) -> None:
        serving = await asyncio.start_server(
            self._connected, sock=listener, limit=MAX_REQUEST_BYTES
        )
        await self._stopped.wait()
        serving.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        self._asking[writer] = None
        try:
            if self._open > MAX_CONNECTIONS:
                self._make_room()
            async with asyncio.timeout(REQUEST_SECONDS):
                answering = await self._request(reader)
            self._asking.pop(writer, None)
            async with asyncio.timeout(ANSWER_SECONDS):
                writer.write(await self._answer(*answering))
                writer.close()
                await writer.wait_closed()
        except (TimeoutError, ConnectionError, asyncio.IncompleteReadError):
            # Too slow, or gone, also where it gave way. What it did not read goes with it: after
            # `close` the transport would keep that, and no bound would count it.
            writer.transport.abort()
        except _Refusal as refusal:
            writer.write(_response(refusal.status))
            writer.close()
        finally:
            self._open -= 1
            self._asking.pop(writer, None)
            if not writer.is_closing():
                writer.transport.abort()

    def _make_room(self) -> None:
        """What has been asking for longest ends: a scraper asks in one packet."""
        oldest = next(iter(self._asking))
        del self._asking[oldest]
        oldest.transport.abort()

    async def _request(self, reader: asyncio.StreamReader) -> tuple[str, dict[str, str]]:
        try:
            return _parsed(await reader.readuntil(b"\r\n\r\n"))
        except asyncio.LimitOverrunError:
            raise _Refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE) from None

    async def _answer(self, method: str, headers: dict[str, str]) -> bytes:
        encode, content_type = choose_encoder(headers.get("accept", ""))
        await self._sampling.acquire()
        # It goes on, with the lock, where its client gives up meanwhile: no other sample may begin.
        text = await asyncio.shield(asyncio.ensure_future(self._sample(encode)))
        if text is None:
            return _response(HTTPStatus.SERVICE_UNAVAILABLE)
        fields = {"Content-Type": content_type}
        if "gzip" in headers.get("accept-encoding", ""):
            text = gzip.compress(text, compresslevel=1)
            fields["Content-Encoding"] = "gzip"
        return _response(HTTPStatus.OK, fields, text, with_body=method != "HEAD")

    async def _sample(self, encode: Callable[[CollectorRegistry], bytes]) -> bytes | None:
        """All metrics, or None where they cannot be taken. Gives the lock up at its end."""
        try:
            text = await asyncio.to_thread(encode, self._registry)
            await asyncio.sleep(_SAMPLE_SECONDS)
            return text
        except Exception as error:  # such as a server's loop that does not answer
            logger.error("the metrics cannot be taken: %r", error, extra={"event": "failure"})
            return None
        finally:
            self._sampling.release()


def _parsed(head: bytes) -> tuple[str, dict[str, str]]:
    """Method and headers, their names in lower case. Raises `_Refusal`."""
    first, *lines = head.decode("latin-1").split("\r\n")
    parts = first.split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
        raise _Refusal(HTTPStatus.BAD_REQUEST)
    method, target, _ = parts
    if method not in ("GET", "HEAD"):
        raise _Refusal(HTTPStatus.METHOD_NOT_ALLOWED)
    if target.partition("?")[0] not in _PATHS:
        raise _Refusal(HTTPStatus.NOT_FOUND)
    named = (line.partition(":") for line in lines)
    return method, {name.strip().lower(): value.strip() for name, _, value in named if name}


def _response(
    status: HTTPStatus,
    fields: dict[str, str] | None = None,
    body: bytes | None = None,
    *,
    with_body: bool = True,
) -> bytes:
    if body is None:
        fields, body = {"Content-Type": "text/plain"}, f"{status.phrase}\n".encode()
    fields = {**(fields or {}), "Content-Length": str(len(body)), "Connection": "close"}
    lines = [f"HTTP/1.1 {status.value} {status.phrase}"]
    lines += [f"{name}: {value}" for name, value in fields.items()]
    head = "\r\n".join([*lines, "", ""]).encode("latin-1")
    return head + body if with_body else head
