"""How long after a commit a watcher knows of it, beside a bare loop of Fetch, in the same run:
`python -m benches.kafka.watching`.

One broker, a process that commits at a given rate, one that watches, with a directory and all its
defaults, and one that only asks for the records, over a socket of its own. What is told is the time
from that of a record, which the broker gave it, until it is in the watcher's state, or in the hands
of the bare loop. It touches no servers and files but its own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import select
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# The broker's first commit, and its messages, are those of the tests.
sys.path.append(str(Path(__file__).parents[2] / "tests"))

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from support.kafka.offsets_topic import make_offsets_topic
from support.kio_client import decode, encode

from benches.kafka.servers import Kafka
from benches.process import cpu_seconds
from pykcoord._native import decode_log, profile
from pykcoord.watch import Change, Watcher, WatchSettings

BUILD = Path(__file__).parents[2] / "build" / "bench"
OFFSETS, PARTITIONS = "__consumer_offsets", 50
TOPIC, GROUPS, CONNECTIONS = "topic", 400, 64
_OFFSET_COMMIT = 8
_WAIT_MS, _MOST_BYTES = 500, 8 << 20
_TICK_SECONDS = 0.002

# When it was there, in seconds since 1970, and the batches.
Seen = list[tuple[float, bytes]]


def commit(address: str, rate: float, seconds: float) -> dict[str, Any]:
    """Commits of one partition each, by groups without members, at that rate; a connection has one
    at a time. Returns how many were answered."""
    requests = [_commit_of(f"group-{number}", number % 10) for number in range(GROUPS)]
    host, port = address.split(":")
    free = [socket.create_connection((host, int(port))) for _ in range(CONNECTIONS)]
    poll = select.epoll()
    by_number = {one.fileno(): one for one in free}
    for one in free:
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        poll.register(one, select.EPOLLIN)
    sent = answered = 0
    began = time.monotonic()
    while (now := time.monotonic() - began) < seconds or len(free) < CONNECTIONS:
        while free and sent < min(now, seconds) * rate:
            free.pop().sendall(requests[sent % GROUPS])
            sent += 1
        for number, _ in poll.poll(_TICK_SECONDS):
            connection = by_number[number]
            answer = connection.recv(4096)
            (size,) = struct.unpack_from(">i", answer)
            assert len(answer) == 4 + size, "an answer in one piece"
            if answered < GROUPS:
                told = decode(_OFFSET_COMMIT, 8, answer[4:])
                assert not told.topics[0].partitions[0].error_code.value, told
            answered += 1
            free.append(connection)
    for one in by_number.values():
        one.close()
    return {"answered": answered, "seconds": time.monotonic() - began}


def _commit_of(group: str, partition: int) -> bytes:
    offset = {"partition_index": partition, "committed_offset": 7, "committed_metadata": ""}
    topics = [{"name": TOPIC, "partitions": [{**offset, "committed_leader_epoch": -1}]}]
    return encode(
        _OFFSET_COMMIT, 8, group_id=group, generation_id_or_member_epoch=-1, member_id="",
        group_instance_id=None, topics=topics,
    )  # fmt: skip


def watch(address: str, directory: Path, seconds: float) -> dict[str, Any]:
    """As `pykcoord watch DIR` does it."""
    seen: Seen = []

    def changed(change: Change) -> None:
        if change.chunk is not None:
            seen.append((time.time(), change.chunk))

    async def story() -> float:
        settings = WatchSettings.of({"bootstrap.servers": address})
        watcher = await Watcher.open(settings, directory)
        assert watcher.state is not None
        watcher.state.observe(changed)
        running = asyncio.create_task(watcher.run())
        before = time.process_time()
        await asyncio.wait((running,), timeout=seconds)
        spent = time.process_time() - before
        assert not running.done(), running
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert watcher.checker is not None
        assert watcher.checker.counts["different"] == 0
        await watcher.close()
        return spent

    spent = asyncio.run(story())
    return {**_delays(seen), "cpu": spent / seconds}


def fetch(address: str, seconds: float) -> dict[str, Any]:
    """Fetch after Fetch of all partitions, over a blocking socket."""
    seen: Seen = []
    host, port = address.split(":")
    connection = socket.create_connection((host, int(port)))
    answers = connection.makefile("rb")
    ends = _ends(address)
    before, began = time.process_time(), time.monotonic()
    while time.monotonic() - began < seconds:
        connection.sendall(_fetch_request(ends))
        (size,) = struct.unpack(">i", answers.read(4))
        answer = answers.read(size)
        now = time.time()
        for partition, records in _records(answer):
            seen.append((now, records))
            ends[partition] = _end(records)
    spent = time.process_time() - before
    connection.close()
    return {**_delays(seen), "cpu": spent / seconds}


def _ends(address: str) -> dict[int, int]:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "bare"})
    try:
        return {
            number: consumer.get_watermark_offsets(TopicPartition(OFFSETS, number), 60)[1]
            for number in range(PARTITIONS)
        }
    finally:
        consumer.close()


def _fetch_request(ends: dict[int, int]) -> bytes:
    """Version 11, without a session."""
    name = OFFSETS.encode()
    body = struct.pack(">hhih", 1, 11, 1, 4) + b"bare"
    body += struct.pack(">iiiibii", -1, _WAIT_MS, 1, _MOST_BYTES, 0, 0, -1)
    body += struct.pack(">ih", 1, len(name)) + name + struct.pack(">i", len(ends))
    for number, end in ends.items():
        body += struct.pack(">iiqqi", number, -1, end, -1, _MOST_BYTES)
    body += struct.pack(">ih", 0, 0)
    return struct.pack(">i", len(body)) + body


def _records(answer: bytes) -> list[tuple[int, bytes]]:
    found, at = [], 4 + 4
    error, _, topics = struct.unpack_from(">hii", answer, at)
    assert (error, topics) == (0, 1)
    at += 10
    at += 2 + struct.unpack_from(">h", answer, at)[0]
    (partitions,) = struct.unpack_from(">i", answer, at)
    at += 4
    for _ in range(partitions):
        number, error, _, _, _, aborted = struct.unpack_from(">ihqqqi", answer, at)
        assert error == 0, (number, error)
        at += 34 + 16 * max(aborted, 0) + 4
        (size,) = struct.unpack_from(">i", answer, at)
        at += 4
        if size > 0:
            found.append((number, answer[at : at + size]))
            at += size
    return found


def _end(records: bytes) -> int:
    at = end = 0
    while at < len(records):
        base, size = struct.unpack_from(">qi", records, at)
        end = base + 1 + struct.unpack_from(">i", records, at + 23)[0]
        at += 12 + size
    return int(end)


def _delays(seen: Seen) -> dict[str, Any]:
    """Of all records: milliseconds from their times until they were seen."""
    found: list[float] = []
    for at, chunk in seen:
        times = decode_log(0, [chunk], 0, 2**63 - 1, ["timestamp"])["timestamp"]
        found += (1000 * at - one for one in times.cast("int64").to_pylist())
    cuts = statistics.quantiles(found, n=1000, method="inclusive")
    named = {"p50": 500, "p90": 900, "p99": 990, "p999": 999}
    return {"records": len(found), **{name: cuts[at - 1] for name, at in named.items()}}


def measure(rates: list[float], seconds: float, tell: Callable[[str], None]) -> None:
    directory = BUILD / "kafka-watching"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    with Kafka(directory / "broker") as broker:
        admin = AdminClient({"bootstrap.servers": broker.address})
        admin.create_topics([NewTopic(TOPIC, 10, 1)])[TOPIC].result(60)
        make_offsets_topic(broker.address, TOPIC)
        _run(broker.address, "commit", rates[0], 10.0)  # a JVM that is warm
        for rate in rates:
            before = cpu_seconds(broker.pid)
            parts = [
                _start(broker.address, "watch", rate, seconds, directory / f"copy-{rate:g}"),
                _start(broker.address, "fetch", rate, seconds),
                _start(broker.address, "commit", rate, seconds),
            ]
            watched, bare, committed = map(_ended, parts)
            spent = cpu_seconds(broker.pid) - before
            tell(
                f"{committed['answered'] / committed['seconds']:,.0f} commits/s for {seconds:g} s; "
                f"the broker took {100 * spent / seconds:.0f} % of a core; "
                f"load {os.getloadavg()[0]:.1f}"
            )
            for name, of in (("watch", watched), ("bare Fetch", bare)):
                tell(
                    f"  {name:10}  {of['records']:,} records; ms from the record's time: p50 "
                    f"{of['p50']:.1f}, p90 {of['p90']:.1f}, p99 {of['p99']:.1f}, p99.9 "
                    f"{of['p999']:.1f}; {100 * of['cpu']:.1f} % of a core"
                )
    shutil.rmtree(directory, ignore_errors=True)


def _start(
    address: str, part: str, rate: float, seconds: float, directory: Path | None = None
) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "benches.kafka.watching", "--part", part, address]
    command += ["--rates", str(rate), "--seconds", str(seconds)]
    if directory is not None:
        command += ["--directory", os.fspath(directory)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _ended(process: subprocess.Popen[str]) -> Any:
    told, _ = process.communicate(timeout=600)
    assert process.returncode == 0
    return json.loads(told)


def _run(address: str, part: str, rate: float, seconds: float) -> Any:
    return _ended(_start(address, part, rate, seconds))


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benches.kafka.watching", description=__doc__.split("\n\n")[0]
    )
    parser.add_argument(
        "--rates", type=float, nargs="+", default=[2000.0, 5000.0], help="commits/s"
    )
    parser.add_argument("--seconds", type=float, default=30.0, help="at each rate (30)")
    parser.add_argument("--part", choices=("watch", "fetch", "commit"), help=argparse.SUPPRESS)
    parser.add_argument("--directory", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("address", nargs="?", help=argparse.SUPPRESS)
    given = parser.parse_args()
    address, seconds = given.address, given.seconds
    if profile != "release":
        parser.error("the extension is a debug build: `make build`")
    if given.part is None:
        measure(given.rates, seconds, _say)
    elif given.part == "watch":
        _say(json.dumps(watch(address, given.directory, seconds)))
    elif given.part == "fetch":
        _say(json.dumps(fetch(address, seconds)))
    else:
        _say(json.dumps(commit(address, given.rates[0], seconds)))
    return 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
