"""Lines on stderr: they never hold the server up, their rate is bounded, and lost ones counted."""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from kafka import KafkaConsumer
from support.server import PykcoordServer

from pykcoord.cli import log_queue, logs
from pykcoord.cli.log_queue import MAX_LINES, LineQueue
from pykcoord.cli.log_rate import WINDOW_SECONDS, LineRate

ANY_LINE = logging.makeLogRecord({"msg": "a line", "levelno": logging.INFO})


def _record(event: str, client: str | None = None) -> logging.LogRecord:
    return logging.makeLogRecord(
        {
            "name": "test",
            "msg": "%s refused",
            "args": (client,),
            "event": event,
            "client_host": client,
        }
    )


class _Reader:
    """A stderr that takes nothing until it is told to."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.reads = threading.Event()

    def write(self, line: bytes) -> None:
        self.reads.wait(60)
        self.lines.append(line.decode())


def test_a_stderr_that_is_not_read_blocks_no_one_and_what_it_missed_is_told() -> None:
    reader = _Reader()
    lines = LineQueue(reader.write, LineRate(lambda: 0.0))
    for number in range(MAX_LINES + 500):
        ANY_LINE.__dict__["event"], ANY_LINE.lineno = None, number  # each a kind of its own
        lines.handle(ANY_LINE)
    lost = lines.dropped_lines
    assert 499 <= lost <= 500  # one may be on its way
    reader.reads.set()
    lines.end_within(30)
    assert len(reader.lines) == MAX_LINES + 500 - lost + 1
    assert reader.lines[-1] == f"{lost} lines of log were lost: stderr did not take them\n"


def test_what_waits_for_stderr_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_queue, "MAX_BYTES", 1_000)
    reader = _Reader()
    lines = LineQueue(reader.write, LineRate(lambda: 0.0))
    for _ in range(20):
        lines.handle(logging.makeLogRecord({"msg": "x" * 99}))
    assert 9 <= lines.dropped_lines <= 10
    reader.reads.set()
    lines.end_within(30)


def test_a_closed_stderr_loses_lines_and_nothing_else() -> None:
    def write(line: bytes) -> None:
        raise BrokenPipeError

    lines = LineQueue(write, LineRate(lambda: 0.0))
    for _ in range(3):
        lines.handle(ANY_LINE)
    assert lines.flush_within(30)
    lines.end_within(30)
    assert lines.dropped_lines == 3


def test_refusals_are_written_at_a_bounded_rate_and_the_rest_is_counted() -> None:
    now = 0.0
    rate = LineRate(lambda: now)
    written = [rate.admits(_record("refused", f"/10.0.0.{n % 3 % 2}")) for n in range(1_000)]
    assert (sum(written), written.index(False), rate.left_out_lines) == (10, 10, 990)
    assert list(rate.reports()) == []
    now = WINDOW_SECONDS
    assert not rate.admits(_record("refused", "/10.0.0.0"))  # not before the count is told
    (report,) = rate.reports()
    assert report.getMessage() == (
        "991 lines of the same kind were left out (661 of them for /10.0.0.0); "
        "the last one: /10.0.0.0 refused"
    )
    assert report.__dict__["lines"] == 991
    assert rate.admits(_record("refused", "/10.0.0.0"))
    assert list(rate.reports(at_end=True)) == []


def test_lines_that_cannot_be_formatted_are_told_and_end_nothing() -> None:
    written: list[bytes] = []
    now = 0.0
    lines = LineQueue(written.append, LineRate(lambda: now))
    for _ in range(12):
        unfit = {"msg": "%d is none", "args": ("x",), "event": "refused", "pathname": "a.py"}
        lines.handle(logging.makeLogRecord(unfit))
    now = 2 * WINDOW_SECONDS
    lines.handle(logging.makeLogRecord({"msg": "fine", "event": "other"}))
    assert lines.flush_within(30)
    lines.end_within(30)
    text = b"".join(written).decode()
    assert text.count("a line of log from a.py:0 cannot be formatted: '%d is none'") == 10
    assert "2 lines of the same kind were left out; the last one: '%d is none'" in text
    assert "fine" in text


def test_kinds_of_lines_have_rates_of_their_own() -> None:
    rate = LineRate(lambda: 0.0)
    while rate.admits(_record("refused")):
        pass
    assert sum(rate.admits(_record("rebalance")) for _ in range(900)) == 200
    assert rate.admits(ANY_LINE)


def test_a_line_stays_a_line_whatever_a_client_calls_itself() -> None:
    record = logging.makeLogRecord(
        {"msg": "group %s", "args": ("a\nb\x1b[2J" + "x" * 10_000,), "group": "y" * 10_000}
    )
    text = logs._TextFormatter().format(record)
    assert r"group a\nb\x1b[2Jxxx" in text
    assert "\n" not in text
    assert text.endswith("... (5917 more characters)")
    fields = json.loads(logs._JsonFormatter().format(record))
    assert fields["group"] == "y" * 4_096 + "... (5904 more characters)"


def _full_pipe() -> tuple[int, int]:
    """A pipe that takes nothing more."""
    reader, writer = os.pipe()
    flags = fcntl.fcntl(writer, fcntl.F_GETFL)
    fcntl.fcntl(writer, fcntl.F_SETFL, flags | os.O_NONBLOCK)
    with contextlib.suppress(BlockingIOError):
        while os.write(writer, b"." * 4_096):
            pass
    fcntl.fcntl(writer, fcntl.F_SETFL, flags)
    return reader, writer


def _serve(directory: Path, stderr: int, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "pykcoord", "serve", str(directory), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True)


def test_a_server_whose_stderr_is_not_read_serves_and_ends(tmp_path: Path) -> None:
    reader, writer = _full_pipe()
    arguments = ["--listen", "127.0.0.1:0", "--set", "log.cleaner.threads=1"]
    process = _serve(tmp_path / "data", writer, *arguments)
    os.close(writer)
    assert process.stdout is not None
    found = re.search(r"listen=127\.0\.0\.1:(\d+)", process.stdout.readline())
    assert found is not None
    address = ("127.0.0.1", int(found[1]))
    for _ in range(20):
        with socket.create_connection(address, timeout=60) as client:
            client.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert client.recv(1) == b""
    with socket.create_connection(address, timeout=60) as client:
        request = struct.pack(">hhih", 18, 0, 7, -1)
        client.sendall(struct.pack(">i", len(request)) + request)
        assert client.recv(8)[4:] == struct.pack(">i", 7)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    process.stdout.close()
    os.close(reader)


def test_a_failure_ends_the_command_although_stderr_is_not_read(tmp_path: Path) -> None:
    reader, writer = _full_pipe()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        process = _serve(tmp_path / "data", writer, "--listen", address)
        assert process.wait(60) == 1
    assert process.stdout is not None
    process.stdout.close()
    os.close(reader)
    os.close(writer)


def test_refused_clients_do_not_fill_the_log(tmp_path: Path) -> None:
    server = PykcoordServer(tmp_path / "data", arguments=["--log-format", "json"])
    with server:
        for _ in range(300):
            with socket.create_connection(("127.0.0.1", server.port), timeout=60) as client:
                client.sendall(b"GET / HTTP/1.1\r\n\r\n")
                assert client.recv(1) == b""
    lines = [json.loads(line) for line in server.stderr().splitlines()]
    refused = [line for line in lines if line["event"] == "refused"]
    assert len(refused) >= 10
    (left_out,) = (line for line in lines if line["event"] == "left_out")
    assert left_out["of"] == "refused"
    assert "for /127.0.0.1)" in left_out["message"]
    assert len(refused) + left_out["lines"] == 300


def test_log_level_is_the_least_that_is_written(tmp_path: Path) -> None:
    arguments = ["--log-level", "warning", "--set", "log.cleaner.threads=1"]
    server = PykcoordServer(tmp_path / "data", arguments=arguments)
    with server:
        assert "WARNING pykcoord.serve: log.cleaner.threads is ignored" in server.stderr()
    assert "INFO" not in server.stderr()
    arguments = ["--log-level", "error", *arguments[2:]]
    server = PykcoordServer(tmp_path / "silent", arguments=arguments)
    with server:
        pass
    assert server.stderr() == ""


def test_a_rebalance_is_a_line_at_info_and_none_at_warning(tmp_path: Path) -> None:
    for level, expected in (("info", 1), ("warning", 0)):
        arguments = ["--log-format", "json", "--log-level", level]
        server = PykcoordServer(tmp_path / level, topics={"orders": 1}, arguments=arguments)
        with server:
            consumer = KafkaConsumer(
                "orders", bootstrap_servers=server.address, group_id="g", client_id="ledger"
            )
            with contextlib.closing(consumer):
                while not consumer.assignment():
                    consumer.poll(timeout_ms=1000)  # shorter ones: pitfall 21 of kafka-python
        lines = [json.loads(line) for line in server.stderr().splitlines()]
        joins = [line for line in lines if line.get("cause") == "member_joined"]
        assert len(joins) == expected
        for line in joins:
            assert (line["group_id"], line["client_id"], line["client_host"]) == (
                "g",
                "ledger",
                "/127.0.0.1",
            )
