"""The cost of compaction for clients that are served meanwhile: `python -m benches.compaction`.

A log that is nearly all dirty is served twice a round, first with `log.cleaner.enable=false`, then
with the cleaner at work on it, under the same load (kafka/load.c): heartbeats, then commits. The
goal is a ratio within the run. Before that the cleaner alone is timed on the same log. Exit status
1 when a goal is missed. It touches no servers and files but its own.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benches.kafka.servers import Pykcoord, build_load_generator
from pykcoord import _native
from pykcoord.compaction import compaction_of
from pykcoord.config import Config
from pykcoord.log import Append, LogDirectory

BUILD = Path(__file__).parents[1] / "build" / "bench"
SHARDS = 50
SEGMENT_BYTES = 4 << 20
RECORDS_A_BATCH = 20
KEYS_A_SHARD = 5_000
PHASES = ["find", "join", "hb", "commit", "leave"]
MOST_TIMES_P99 = 1.5
LEAST_MB_PER_SECOND = 300
COMMITTED = "5"

console = Console(width=None if sys.stdout.isatty() else 120)


class Cleaned(Pykcoord):
    """`pykcoord serve` on a log, with the cleaner on or off."""

    def __init__(self, directory: Path, enable: bool) -> None:
        super().__init__(directory, "commit")
        self._enable = enable

    def command(self) -> list[str]:
        settings = {
            "offsets.topic.segment.bytes": SEGMENT_BYTES,
            "pykcoord.snapshot.interval.ms": 0,
            "log.cleaner.enable": str(self._enable).lower(),
            "log.cleaner.min.cleanable.ratio": 0.1,
        }
        given = [f"--set={name}={value}" for name, value in settings.items()]
        return [*super().command(), *given]

    def cleaned_shards(self) -> int:
        path = self.directory / "cleaner-offset-checkpoint"
        return int(path.read_text().split("\n")[1]) if path.exists() else 0


def write_log(directory: Path, size_bytes: int) -> None:
    """Commits of random offsets of `KEYS_A_SHARD` partitions, in every shard."""
    with LogDirectory.open(
        directory, partitions=SHARDS, segment_bytes=SEGMENT_BYTES, flush="os"
    ) as log:
        chosen = random.Random(1)
        next_offset = 0
        while log.size_bytes < size_bytes:
            records = _records(chosen)
            written = threading.Event()
            appends = [
                Append(shard, next_offset, RECORDS_A_BATCH, 0, 0, records)
                for shard in range(SHARDS)
            ]
            log.append(appends, lambda *_, written=written: written.set())
            written.wait()
            next_offset += RECORDS_A_BATCH


def _records(chosen: random.Random) -> bytes:
    out = bytearray()
    for number in range(RECORDS_A_BATCH):
        group, partition = divmod(chosen.randrange(KEYS_A_SHARD), 100)
        name, topic = b"dirty-group-%05d" % group, b"topic"
        key = struct.pack(">hh", 1, len(name)) + name + struct.pack(">h", len(topic)) + topic
        key += struct.pack(">i", partition)
        value = struct.pack(">hqihq", 3, chosen.randrange(2**40), -1, 0, 1_700_000_000_000)
        body = (
            bytes([0, 0, 2 * number, 2 * len(key)]) + key + bytes([2 * len(value)]) + value + b"\0"
        )
        out += _varint(len(body)) + body
    return bytes(out)


def _varint(value: int) -> bytes:
    zigzag = 2 * value
    return bytes([zigzag]) if zigzag < 0x80 else bytes([zigzag & 0x7F | 0x80, zigzag >> 7])


def measure_cleaner(directory: Path) -> tuple[float, float]:
    """MB of input per second, of one core and by the clock."""
    config = Config(offsets_topic_num_partitions=SHARDS)
    with LogDirectory.open(directory, partitions=SHARDS, segment_bytes=SEGMENT_BYTES) as log:
        started, cpu = time.perf_counter(), time.thread_time()
        cleaned = log.compact(compaction_of(config))
        seconds, cpu_seconds = time.perf_counter() - started, time.thread_time() - cpu
    megabytes = sum(one.bytes_before for one in cleaned.values()) / 1e6
    return megabytes / cpu_seconds, megabytes / seconds


def measure_load(server: Cleaned, load: Path, connections: int, seconds: float) -> dict[str, float]:
    """The 99th percentile of each phase, in ms."""
    with server:
        result = subprocess.run(
            [
                os.fspath(load), server.address, str(server.pid), str(connections), str(seconds),
                COMMITTED, f"load-{time.time_ns()}", *PHASES,
            ],
            capture_output=True, text=True, check=True, timeout=600,
        )  # fmt: skip
        cleaned = server.cleaned_shards()
    if server._enable and not 0 < cleaned < SHARDS:
        console.print(f"{cleaned} of {SHARDS} shards were compacted: not at work all the time")
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    return {line["phase"]: line["p99_ms"] for line in lines if "p99_ms" in line}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m benches.compaction")
    parser.add_argument("--megabytes", type=int, default=1500, help="size of the log (1500)")
    parser.add_argument("--connections", type=int, default=500, help="of the load (500)")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each phase (2)")
    parser.add_argument("--rounds", type=int, default=3, help="of both servers (3)")
    given = parser.parse_args()
    if _native.profile != "release":
        sys.exit("a debug build tells nothing: make build")
    root = BUILD / "compaction"
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    load = build_load_generator(BUILD)
    console.print(f"writing {given.megabytes} MB of commits")
    write_log(root / "log", given.megabytes * 1_000_000)
    seen: dict[bool, list[dict[str, float]]] = {False: [], True: []}
    try:
        shutil.copytree(root / "log", root / "alone")
        of_core, by_clock = measure_cleaner(root / "alone")
        shutil.rmtree(root / "alone")
        console.print(f"cleaner alone: {of_core:.0f} MB/s of a core, {by_clock:.0f} by the clock")
        for number in range(given.rounds):
            for enable in (False, True):
                shutil.copytree(root / "log", root / "served")
                server = Cleaned(root / "served", enable)
                seen[enable].append(measure_load(server, load, given.connections, given.seconds))
                shutil.rmtree(root / "served")
                console.print(f"round {number + 1}, cleaner {enable}: {seen[enable][-1]}")
    finally:
        shutil.rmtree(root)
    table = Table("99th percentile, ms", "without", "while compacting", "ratio", "goal")
    met = of_core >= LEAST_MB_PER_SECOND
    for phase in ("hb", "commit"):
        without, beside = (
            statistics.median(one[phase] for one in seen[enable]) for enable in (False, True)
        )
        met = met and beside <= MOST_TIMES_P99 * without
        row = [phase, f"{without:.2f}", f"{beside:.2f}", f"{beside / without:.2f}"]
        table.add_row(*row, f"at most {MOST_TIMES_P99}")
    console.print(table)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
