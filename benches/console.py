"""The console of a server with very many groups: `make bench-console`, or `python -m
benches.console --groups 1000000`.

Asks a server that has just started, as a browser does: the first page, further ones, a search, one
group; and how long a change takes until a stream tells of it and the page has it. Seconds are told,
and memory of the server. Must only touch folders that it made.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from benches.cold_start import write_log
from benches.process import cpu_seconds
from benches.workload import TOPIC, offset_commit

LIMIT_SECONDS = 1.0
"""What the first page, and a change until it is seen, may take."""
_CHANGES = 20


class Figure(NamedTuple):
    """Seconds of one kind of question: how often it was asked, the median and the longest."""

    what: str
    count: int
    median: float
    longest: float


class Server:
    """`pykcoord serve DIRECTORY --web`, and what is asked of it."""

    def __init__(self, process: subprocess.Popen[str], kafka: tuple[str, int], url: str) -> None:
        self.kafka = kafka
        self.url = url
        self._process = process

    def get(self, path: str, **parameters: Any) -> tuple[float, Any]:
        """Seconds until the whole answer is there, and what it is (bytes of a page, or JSON)."""
        began = time.perf_counter()
        query = f"?{urllib.parse.urlencode(parameters)}" if parameters else ""
        with urllib.request.urlopen(f"{self.url}{path}{query}") as answer:
            body = answer.read()
        seconds = time.perf_counter() - began
        return seconds, json.loads(body) if path.startswith("/api/") else body

    def megabytes(self) -> int:
        """What it has resident."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s*(\d+) kB", status)
        assert found is not None
        return int(found[1]) // 1024

    def cpu_seconds(self) -> float:
        """Of the processor, since it began."""
        return cpu_seconds(self._process.pid)


@contextmanager
def serving(root: Path) -> Iterator[Server]:
    """Within it, it serves."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        web = f"127.0.0.1:{probe.getsockname()[1]}"
    command = [sys.executable, "-m", "pykcoord", "serve", os.fspath(root), "--web", web]
    command += ["--listen", "127.0.0.1:0", "--topic", f"{TOPIC}:100"]
    command += ["--set", "group.initial.rebalance.delay.ms=0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            listen = re.search(r"listen=(\S+):(\d+)", line)
            assert listen is not None, "it did not start"
            yield Server(process, (listen[1], int(listen[2])), f"http://{web}")
        finally:
            process.terminate()


def first_pages(server: Server, groups: int) -> list[Figure]:
    """From the first page of a console that nobody has asked yet, to one of any kind."""
    cpu = server.cpu_seconds()
    html, _ = server.get("/")
    first, page = server.get("/api/groups", size=50)
    _say(f"{server.cpu_seconds() - cpu:.2f} s of CPU until the first page is there")
    assert len(page["groups"]) == min(50, groups)
    figures = [Figure("first page, at once after start", 1, *[html + first] * 2)]
    began = time.perf_counter()
    while not page["is_whole"]:
        time.sleep(0.1)
        _, page = server.get("/api/groups", size=50)
    assert page["total"] >= groups  # those that an earlier run left are there too
    figures.append(Figure("until all are listed", 1, *[time.perf_counter() - began] * 2))
    some = [one["id"] for one in page["groups"]]
    for what, asked in (
        ("next page", [{"size": 50, "after": one} for one in some[:20]]),
        ("in the middle", [{"size": 50, "after": f"{one}~{n}"} for n, one in enumerate(some[:5])]),
        ("search", [{"size": 50, "search": f"{number:03}7"} for number in range(5)]),
        ("one state, from the end", [{"size": 50, "state": "Stable", "order": "desc"}]),
    ):
        figures.append(_figure(what, [server.get("/api/groups", **one)[0] for one in asked]))
    figures.append(_figure("one group", [server.get("/api/group", id=one)[0] for one in some[:20]]))
    return figures


def changes(server: Server) -> Figure:
    """A new group that commits, from its request until a stream has told of it and the page shows
    it."""
    seconds = []
    run = time.time_ns()  # of a group that is there already, no stream tells
    with urllib.request.urlopen(f"{server.url}/api/events") as stream, _connected(server) as ask:
        for number in range(_CHANGES):
            group = f"seen-{run}-{number:02}"
            began = time.perf_counter()
            ask(offset_commit((group, "", -1), 1, count=1))
            for line in stream:
                if line.startswith(b"data: ") and group in line.decode():
                    break
            page = server.get("/api/group", id=group)[1]
            assert [one["offset"] for one in page["offsets"]] == [1]
            seconds.append(time.perf_counter() - began)
    return _figure("from a change until it is seen", seconds)


@contextmanager
def _connected(server: Server) -> Iterator[Any]:
    with socket.create_connection(server.kafka) as connection:

        def ask(frame: bytes) -> None:
            connection.sendall(struct.pack(">i", len(frame)) + frame)
            (size,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
            connection.recv(size, socket.MSG_WAITALL)

        yield ask


def _figure(what: str, seconds: list[float]) -> Figure:
    return Figure(what, len(seconds), statistics.median(seconds), max(seconds))


def measure(root: Path, groups: int) -> list[Figure]:
    """All of it on a log of so many groups, which is made if it is not there."""
    if not any(root.iterdir()):
        write_log(root, groups)
    with serving(root) as server:
        before, cpu = server.megabytes(), server.cpu_seconds()
        figures = first_pages(server, groups)
        after, spent = server.megabytes(), server.cpu_seconds() - cpu
        figures.append(changes(server))
    _say(f"{groups:,} groups; {before} MB before the first page, {after} MB after; ")
    _say(f"{spent:.1f} s of CPU for all pages together")
    for of in figures:
        _say(f"{of.what:32} {of.median:7.3f} s, longest of {of.count}: {of.longest:.3f} s")
    return figures


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--groups", type=int, default=20_000)
    parser.add_argument("--keep", type=Path, help="make the log there, and leave it")
    arguments = parser.parse_args()
    if arguments.keep is not None:
        arguments.keep.mkdir(parents=True, exist_ok=True)
        figures = measure(arguments.keep, arguments.groups)
    else:
        with tempfile.TemporaryDirectory(prefix="pykcoord-console-") as folder:
            figures = measure(Path(folder), arguments.groups)
    bounded = [figures[0], figures[-1]]
    slow = [one.what for one in bounded if one.median > LIMIT_SECONDS]
    if slow:
        _say(f"more than {LIMIT_SECONDS:g} s: {', '.join(slow)}")
    return 1 if slow else 0


if __name__ == "__main__":
    raise SystemExit(main())
