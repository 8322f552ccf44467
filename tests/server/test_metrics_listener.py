"""The metrics' port: bounded in connections, bytes and time, for every client."""

from __future__ import annotations

import contextlib
import gzip
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Counter

from pykcoord.server import metrics_listener
from pykcoord.server.metrics_listener import MAX_CONNECTIONS, MAX_REQUEST_BYTES, serve_metrics

SECONDS = 60.0


@pytest.fixture
def url() -> Iterator[str]:
    registry = CollectorRegistry()
    Counter("scrapes", "A text.", registry=registry).inc(7)
    with serve_metrics(registry, ("127.0.0.1", 0)) as url:
        yield url


def _get(url: str, **headers: str) -> tuple[bytes, dict[str, str]]:
    with urllib.request.urlopen(
        urllib.request.Request(url, headers=headers), timeout=SECONDS
    ) as reply:
        return reply.read(), dict(reply.headers)


def _connect(url: str) -> socket.socket:
    host, _, port = url.split("/")[2].rpartition(":")
    return socket.create_connection((host, int(port)), timeout=SECONDS)


def _answer_to(url: str, request: bytes) -> bytes:
    answer = b""
    with _connect(url) as client:
        client.sendall(request)
        while chunk := client.recv(65_536):
            answer += chunk
    return answer


def test_a_scrape_gets_the_form_that_it_asks_for(url: str) -> None:
    text, headers = _get(url)
    assert b"scrapes_total 7.0" in text
    assert headers["Content-Type"].startswith("text/plain")
    zipped, headers = _get(url, **{"Accept-Encoding": "gzip"})
    assert gzip.decompress(zipped) == text
    asked = "application/openmetrics-text; version=1.0.0"
    text, headers = _get(url, Accept=asked)
    assert text.endswith(b"# EOF\n")
    assert headers["Content-Type"].startswith("application/openmetrics-text")
    head = _answer_to(url, b"HEAD / HTTP/1.1\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert head.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /favicon.ico HTTP/1.1\r\n\r\n", b"404"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", b"405"),
        (b"\x00\x00\x00\x10\xff\xfe\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * (MAX_REQUEST_BYTES // 3), b"431"),
    ],
)
def test_what_is_no_scrape_is_refused(url: str, request_: bytes, status: bytes) -> None:
    assert _answer_to(url, request_).startswith(b"HTTP/1.1 " + status)


def test_half_open_requests_are_bounded_and_a_scrape_is_served_beside_them(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics_listener, "REQUEST_SECONDS", 600.0)  # only room is made
    threads = threading.active_count()
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(_connect(url)) for _ in range(3 * MAX_CONNECTIONS)]
        for client in clients:
            with contextlib.suppress(ConnectionError):
                client.sendall(b"GET /metr")
        text, _ = _get(url)
        assert b"scrapes_total 7.0" in text
        for client in clients[: 2 * MAX_CONNECTIONS]:
            with contextlib.suppress(ConnectionError):
                assert client.recv(1) == b""
    assert threading.active_count() <= threads + 1  # what encodes


def test_a_request_that_does_not_arrive_in_time_is_closed(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics_listener, "REQUEST_SECONDS", 0.05)
    assert _answer_to(url, b"GET /metrics HTTP/1.1\r\n") == b""


def test_metrics_that_cannot_be_taken_are_told_as_unavailable(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Registry(CollectorRegistry):
        def collect(self):
            raise TimeoutError("no sample")

    with serve_metrics(Registry(), ("127.0.0.1", 0)) as url:
        with pytest.raises(urllib.error.HTTPError) as refused:
            _get(url)
        refused.value.close()
    assert refused.value.code == 503
    assert "TimeoutError('no sample')" in caplog.text


def test_an_address_in_use_is_an_os_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = ("127.0.0.1", taken.getsockname()[1])
        with pytest.raises(OSError, match="in use"), serve_metrics(CollectorRegistry(), address):
            pass


def test_an_answer_that_is_not_read_in_time_is_dropped_with_its_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer = b"x" * 32 * 1024 * 1024
    monkeypatch.setattr(metrics_listener, "ANSWER_SECONDS", 1.0)
    monkeypatch.setattr(
        metrics_listener, "choose_encoder", lambda _: (lambda _: answer, "text/plain")
    )
    ended = threading.Event()

    class Server(metrics_listener._MetricsServer):
        async def _connected(self, *streams: Any) -> None:
            await super()._connected(*streams)
            ended.set()

    monkeypatch.setattr(metrics_listener, "_MetricsServer", Server)
    with serve_metrics(CollectorRegistry(), ("127.0.0.1", 0)) as url, _connect(url) as client:
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert ended.wait(SECONDS)
        received = sum(map(len, iter(lambda: client.recv(1 << 20), b"")))
    assert 0 < received < len(answer), "all was kept for a client that does not read"


def test_a_sample_that_hangs_is_the_only_one_whoever_gives_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each would take a thread, and wait for the server's loop."""
    monkeypatch.setattr(metrics_listener, "ANSWER_SECONDS", 0.1)
    samples, goes_on = threading.Semaphore(0), threading.Event()

    class Registry(CollectorRegistry):
        def collect(self) -> Iterator[Any]:
            samples.release()
            goes_on.wait(SECONDS)
            return iter(())

    with serve_metrics(Registry(), ("127.0.0.1", 0)) as url:
        for _ in range(5):
            assert _answer_to(url, b"GET / HTTP/1.1\r\n\r\n") == b"", "given up"
        assert samples.acquire(timeout=SECONDS)
        assert not samples.acquire(blocking=False)
        goes_on.set()
        monkeypatch.setattr(metrics_listener, "ANSWER_SECONDS", SECONDS)
        assert _answer_to(url, b"GET / HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 200 ")
