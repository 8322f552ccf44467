"""Cold starts beside Kafka's: from the start of a process to its first answer from a group.

Empty, and with groups of one member in the log that Kafka wrote; pykcoord starts on a copy of it.
An answer is one to a fetch of a group's offsets without an error: a coordinator that still loads
refuses it. With groups in the log it has to hold the offset that Kafka told before, and ends the
run where it does not. Must never ask before the process was started, nor wait longer between two
tries than a goal can bear.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path

from benches.kafka.compare import BUILD, Load, Size, console, create_topic
from benches.kafka.rows import Row
from benches.kafka.servers import Kafka, Pykcoord, Server, ServerError

STARTS = 3
MOST_EMPTY_S, MOST_FULL_S = 0.3, 1.0
_LIMIT_S = 120.0
_PAUSE_S = 0.005
_CLIENT = b"cold-start"

Offsets = dict[tuple[str, int], int]  # by topic and partition


def measure(size: Size, starts: int = STARTS) -> list[Row]:
    directory = BUILD / "kafka-cold"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    try:
        rows = [_row("cold start to the first answer", _empty(directory, starts), MOST_EMPTY_S)]
        name = f"with {size.groups:,} groups"
        return [*rows, _row(name, _full(size, directory, starts), MOST_FULL_S)]
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _row(name: str, seconds: tuple[list[float], list[float]], most: float) -> Row:
    return Row.of_rounds(name, "s", *seconds, most_itself=most)


def _empty(directory: Path, starts: int) -> tuple[list[float], list[float]]:
    console.print("cold starts, empty")

    def in_new_folder(make: Callable[[Path], Server], name: str, number: int) -> float:
        server = make(directory / f"{name}-{number}")
        server.directory.mkdir()
        return seconds_to_first_answer(server, group_name(0), {})

    kafka, own = [], []
    for number in range(starts):
        kafka.append(in_new_folder(Kafka, "kafka", number))
        own.append(in_new_folder(lambda path: Pykcoord(path, "os"), "os", number))
    return kafka, own


def _full(size: Size, directory: Path, starts: int) -> tuple[list[float], list[float]]:
    console.print(f"cold starts with {size.groups:,} groups")
    kafka = Kafka(directory / "kafka-full")
    with kafka:
        create_topic(kafka)
        phases = ["find", "join", f"fill={size.groups}", f"fill-offsets={size.connections}"]
        Load(size, pin=False).run(kafka, phases, partitions=1)
        # The first of those that have offsets, which come last in the log.
        group = group_name(size.connections + size.groups)
        committed = _answer(kafka.port, group)
        if not committed:
            raise ServerError(f"{kafka.name} has no offset of {group}: {committed}")
    own = Pykcoord(directory / "os-full", "os")
    for partition in (kafka.directory / "data").glob("__consumer_offsets-*"):
        shutil.copytree(partition, own.directory / partition.name)
    seconds: tuple[list[float], list[float]] = ([], [])
    for _ in range(starts):
        for server, times in zip((kafka, own), seconds, strict=True):
            times.append(seconds_to_first_answer(server, group, committed))
    return seconds


def group_name(number: int) -> str:
    """As the load generator names the groups of its first run."""
    digits = re.search(r"GROUP_DIGITS = (\d+)", Path(__file__).with_name("client.h").read_text())
    assert digits is not None, "client.h says how many digits a group's number has"
    return f"load-group-1-{number:0{digits[1]}}"


def seconds_to_first_answer(server: Server, group: str, committed: Offsets) -> float:
    """Starts the server, and stops it. Kafka's folder is formatted before."""
    server.command()
    began = time.perf_counter()
    server.launch()
    try:
        while (answer := _answer(server.port, group)) is None:
            if not server.is_running or time.perf_counter() - began > _LIMIT_S:
                raise ServerError(f"{server.name} did not answer:\n{server.output.read_text()}")
            time.sleep(_PAUSE_S)
        seconds = time.perf_counter() - began
    finally:
        server.stop()
    if answer != committed:
        raise ServerError(f"{server.name} answered {group} with {answer}, not with {committed}")
    return seconds


def _answer(port: int, group: str) -> Offsets | None:
    """What is committed; None while the server does not say."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 5) as client:
        client.settimeout(5)
        # FindCoordinator v1 makes Kafka create the log where there is none.
        name = _string(group.encode())
        error = _ask(client, 10, 1, name + b"\0")[4:6]
        # OffsetFetch v5 of all offsets: its error code comes last.
        if error == b"\0\0" and (told := _ask(client, 9, 5, name + b"\xff" * 4))[-2:] == error:
            return _offsets(told)
    return None


def _offsets(told: bytes) -> Offsets:
    """Of the body of a reply to OffsetFetch v5."""
    rest = memoryview(told)[4:]  # throttle time

    def take(layout: str) -> tuple[int, ...]:
        nonlocal rest
        size = struct.calcsize(layout)
        fields, rest = struct.unpack(layout, rest[:size]), rest[size:]
        return fields

    def take_string() -> str:
        nonlocal rest
        size = max(0, take(">h")[0])
        text, rest = str(rest[:size], "utf-8"), rest[size:]
        return text

    offsets = {}
    for _ in range(take(">i")[0]):
        topic = take_string()
        for _ in range(take(">i")[0]):
            partition, offset, _ = take(">iqi")
            take_string()  # metadata
            (error,) = take(">h")
            assert error == 0, f"{topic}-{partition}: error {error}"
            offsets[topic, partition] = offset
    return offsets


def _ask(client: socket.socket, api_key: int, version: int, body: bytes) -> bytes:
    """The body of the answer."""
    request = struct.pack(">hhi", api_key, version, 7) + _string(_CLIENT) + body
    client.sendall(struct.pack(">i", len(request)) + request)
    with client.makefile("rb") as answer:
        (length,) = struct.unpack(">i", _exactly(answer.read(4), 4))
        return _exactly(answer.read(length), length)[4:]


def _exactly(data: bytes, length: int) -> bytes:
    if len(data) != length:
        raise ConnectionError("the server ended the connection")
    return data


def _string(text: bytes) -> bytes:
    return struct.pack(">h", len(text)) + text
