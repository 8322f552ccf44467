"""Clients that are slow, deaf, or send what is no request: they cost what they hold, no more."""

from __future__ import annotations

import resource
import socket
import struct
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.ports import free_port

from attack.attacks import ATTACKS
from attack.target import attacked
from attack.wire import Connection, Refused, header, sized

_ODD_BEGINNINGS = {
    "no length": struct.pack(">i", 0),
    "a negative length": struct.pack(">i", -1),
    "the lowest length": struct.pack(">i", -(2**31)),
    "the highest length": struct.pack(">i", 2**31 - 1),
    "a frame of one byte": sized(b"x"),
    "HTTP": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "TLS": bytes.fromhex("1603010200010001fc0303") + bytes(500),
    "SASL": sized(header(17, 1) + b"\0\5PLAIN"),
}
_PASSES = (
    "garbage",
    "broken requests",
    "200 clients that never read",
    "connections that are reset",
)
_DESCRIPTORS = 20_000
_SPARE_DESCRIPTORS = 40
_FILES = 20
_METRICS_CONNECTIONS = 600


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(_DESCRIPTORS, before[1]), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_what_is_no_request_closes_its_connection_with_one_line(tmp_path: Path) -> None:
    with attacked(tmp_path / "data") as target:
        for data in _ODD_BEGINNINGS.values():
            with Connection(target.port, 10) as client:
                client.socket.sendall(data)
                with pytest.raises(Refused):
                    client.read()

        def lines() -> int:
            return sum("refused" in line for line in target.server.stderr().splitlines())

        target.until(lambda: lines() > 0)  # they leave through a queue
        assert lines() <= len(_ODD_BEGINNINGS)


@pytest.mark.parametrize("name", _PASSES)
def test_odd_clients_leave_nothing_behind(name: str, scale: float, tmp_path: Path) -> None:
    with attacked(tmp_path / "data") as target:
        before = target.descriptors()
        once = ATTACKS[name](target.port, scale)
        for _ in range(3):
            once()
        del once  # and with it the connections that it holds
        # Files of its own may have been opened meanwhile, by what was committed.
        target.until(lambda: target.descriptors() <= before + _FILES)


@pytest.mark.usefixtures("many_descriptors")
def test_idle_connections_hold_a_buffer_each_at_most(scale: float, tmp_path: Path) -> None:
    with attacked(tmp_path / "data", most_bytes=128 << 20) as target:
        resource.prlimit(target.server.pid, resource.RLIMIT_NOFILE, (_DESCRIPTORS, _DESCRIPTORS))
        once = ATTACKS["10,000 idle connections"](target.port, scale)
        assert [once().answered > 0 for _ in range(3)] == [True] * 3


def test_half_a_frame_is_held_once_and_given_back(scale: float, tmp_path: Path) -> None:
    size = int((60 << 20) * scale)
    with attacked(tmp_path / "data", most_bytes=8 * size + (64 << 20)) as target:
        before = target.resident_bytes()
        once = ATTACKS["halves of frames of 100 MiB"](target.port, scale)
        for _ in range(4):
            once()
        target.until(lambda: target.resident_bytes() < before + size + (32 << 20))


def test_parts_of_many_frames_are_bounded_in_all(scale: float, tmp_path: Path) -> None:
    """Of 1 MB each on so many connections; tests/server/test_halves.py has the bound itself."""
    size = int((1_000 << 20) * scale)
    with attacked(tmp_path / "data", most_bytes=min(size, 512 << 20) + (96 << 20)) as target:
        ATTACKS["parts of many frames of 100 MiB"](target.port, scale)()
        if size > 512 << 20:
            target.until(lambda: "queued.max.request.bytes" in target.server.stderr())
        else:
            assert "refused" not in target.server.stderr()


def test_a_server_without_descriptors_serves_those_it_has_and_comes_back(tmp_path: Path) -> None:
    with attacked(tmp_path / "data") as target:
        most = target.descriptors() + _SPARE_DESCRIPTORS
        resource.prlimit(target.server.pid, resource.RLIMIT_NOFILE, (most, most))
        held = [socket.create_connection(("127.0.0.1", target.port)) for _ in range(2 * most)]
        assert not target.victim.beats().wrong
        for client in held:
            client.close()
        assert target.answers()


def test_half_requests_for_metrics_neither_pile_up_nor_keep_others_out(tmp_path: Path) -> None:
    port = free_port()
    with attacked(tmp_path / "data", arguments=("--metrics", f"127.0.0.1:{port}")) as target:
        threads = Path(f"/proc/{target.server.pid}/task")
        before = len(list(threads.iterdir()))
        held = []
        for _ in range(_METRICS_CONNECTIONS):
            try:
                client = socket.create_connection(("127.0.0.1", port), 2)
                client.sendall(b"GET /metr")
                held.append(client)
            except OSError:  # refused, or reset: it may bound what it takes
                continue
        assert len(list(threads.iterdir())) < before + 50
        assert target.answers()
        for client in held:
            client.close()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
            assert b"pykcoord" in answer.read()
