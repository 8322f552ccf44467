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
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kio.index import load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader

from benches.kafka.compare import BUILD, Load, Size, console, copy_log, create_topic
from benches.kafka.rows import Row
from benches.kafka.servers import Kafka, Pykcoord, Server, ServerError
from tests.support.asked import Asked
from tests.support.kio_client import encode

STARTS = 3
MOST_EMPTY_S, MOST_FULL_S = 0.3, 1.0
_LIMIT_S = 120.0
_PAUSE_S = 0.005
# Keys of requests, and versions.
_FIND_COORDINATOR = 10, 1
_OFFSET_FETCH = 9, 5  # of all offsets, where no topics are named

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
    copy_log(kafka, own)
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
    for question in (_FIND_COORDINATOR, _OFFSET_FETCH):  # which take their time once
        encode(*question, key="", key_type=0, group_id="", topics=None)
        entity_reader(load_response_schema(*question))
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
    """The committed offsets; None while the server does not answer."""
    with contextlib.suppress(OSError), Asked(f"127.0.0.1:{port}", 5) as asked:
        # Makes Kafka create the log where there is none.
        found = asked.ask(*_FIND_COORDINATOR, key=group, key_type=0)
        if found.error_code is ErrorCode.none:
            told = asked.ask(*_OFFSET_FETCH, group_id=group, topics=None)
            return None if told.error_code is not ErrorCode.none else _offsets(told)
    return None


def _offsets(told: Any) -> Offsets:
    each = [(topic.name, one) for topic in told.topics for one in topic.partitions]
    assert all(one.error_code is ErrorCode.none for _, one in each), told
    return {(topic, one.partition_index): one.committed_offset for topic, one in each}
