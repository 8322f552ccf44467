"""Assignors beside Kafka's own classes, on the same groups in turns: `python -m
benches.kafka.assignors`.

Each row is a generated group: Kafka's class in a JVM of its own, warm, then the native core, then
`pykcoord.assign` with its lists. All must return the same, by checksum, order included; those of
the server's classes as sets. Figures are the fastest calls of each. `--docs` writes the table of
docs/benchmarks.md. Exit status 1 when a goal is missed or a result differs.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import queue
import subprocess
import sys
import threading
import time
from pathlib import Path

from rich.console import Console

# The jars and what runs Kafka's classes are those of the tests.
sys.path.append(str(Path(__file__).parents[2] / "tests"))

from support.kafka import assignors as java

import pykcoord
from benches.counts import write_table
from benches.kafka.assignor_rows import ROWS, SMOKE_ROWS, Measured, Row, Times, markdown, show
from pykcoord.assignors import sticky_user_data

ROOT = Path(__file__).parents[2]
RESULT = ROOT / "build" / "bench" / "assignors.json"
OPTIONS = ("-Xms2g", "-Xmx4g")  # else the JVM as it comes: Kafka sets nothing for a consumer
CALL_LIMIT_S = 60.0
READY_LIMIT_S = 300.0
GENERATION = 7
MARK = "<!-- make bench-assignors -->\n"
MASK = 2**64 - 1

console = Console(width=None if sys.stdout.isatty() else 160)


def measure_java(row: Row, seconds: float) -> Times:
    """Milliseconds of the first call and of the fastest, None where one takes over CALL_LIMIT_S."""
    command = java.command(*row.arguments(), str(seconds), options=OPTIONS)
    with subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8") as process:
        lines: queue.Queue[str] = queue.Queue()
        assert process.stdout is not None
        reader = threading.Thread(target=lambda: [lines.put(line) for line in process.stdout or ()])
        reader.start()
        calls: list[float] = []
        checksum = None
        try:
            assert lines.get(timeout=READY_LIMIT_S) == "ready\n"
            while checksum is None:
                line = lines.get(timeout=CALL_LIMIT_S).split()
                if line[0] == "checksum":
                    checksum = line[1]
                else:
                    calls.append(float(line[0]))
        except queue.Empty:
            pass
        finally:
            process.kill()
            reader.join()
    if checksum is None:
        return Times(None, None, None)
    return Times(calls[0], min(calls), checksum)


def measure_native(row: Row) -> tuple[float, float, int, str]:
    """Milliseconds to build and to assign, bytes a partition beside the input, checksum."""
    command = [os.fspath(ROOT / "target" / "release" / "examples" / "assignors"), *row.arguments()]
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    build, assign, bytes_each, checksum = result.stdout.splitlines()[-1].split()
    return float(build), float(assign), int(bytes_each), checksum


def measure_python(row: Row, seconds: float) -> tuple[float, str]:
    """Milliseconds of `pykcoord.assign`, and a checksum of its lists."""
    topics = {f"topic-{topic}": row.partitions // row.topics for topic in range(row.topics)}
    members = _members(row, list(topics))
    if row.one_more:
        newest = f"member-{row.members - 1}"
        before = {member: listed for member, listed in members.items() if member != newest}
        for member, owned in pykcoord.assign(row.strategy, topics, before).items():
            user_data = sticky_user_data(owned, GENERATION) if row.strategy == "sticky" else None
            members[member] = pykcoord.Subscription(
                before[member], owned, GENERATION, user_data=user_data
            )
    gc.collect()
    best, calls, end = float("inf"), 0, time.perf_counter() + seconds
    while calls < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        lists = pykcoord.assign(row.strategy, topics, members)
        best = min(best, time.perf_counter() - start)
        calls += 1
    return best * 1e3, _checksum(lists)


def _members(row: Row, topics: list[str]) -> dict[str, list[str] | pykcoord.Subscription]:
    """As in native/bench/examples/assignors.rs."""
    state = 42
    members: dict[str, list[str] | pykcoord.Subscription] = {}
    for member in range(row.members):
        listed = topics
        if row.subscriptions == "but-one":
            without = member % len(topics)
            listed = topics[:without] + topics[without + 1 :]
        elif row.subscriptions == "random":
            listed = []
            for topic in topics:
                state = (state * 6364136223846793005 + 1442695040888963407) & MASK
                if state >> 63:
                    listed.append(topic)
        members[f"member-{member}"] = listed
    return members


def _checksum(lists: dict[str, list[pykcoord.TopicPartition]]) -> str:
    total = 7
    for partitions in lists.values():
        for topic, number in partitions:
            total = (total * 31 + (int(topic[6:]) << 20) + number) & MASK
        total = (total * 31 + (0xFFFFFFFF << 20) - 1) & MASK
    return f"{total:016x}"


def measure(row: Row, seconds: float) -> Measured:
    by_java = measure_java(row, seconds)
    build, assign, bytes_each, checksum = measure_native(row)
    by_python, python_checksum = measure_python(row, min(seconds, 1.0))
    same = python_checksum == checksum and by_java.checksum in (None, checksum)
    return Measured(row, by_java, build, assign, by_python, bytes_each, same)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benches.kafka.assignors",
        description="Assignors beside Kafka's own classes, on the same groups.",
        epilog="example: make bench-assignors BENCH_ARGS=--docs",
    )
    parser.add_argument("--smoke", action="store_true", help="small groups, and gates nothing")
    parser.add_argument("--docs", action="store_true", help="write the table of docs/benchmarks.md")
    parser.add_argument(
        "--seconds", type=float, default=10.0, help="for each class of Kafka and row (10)"
    )
    parser.add_argument("--only", metavar="STRATEGY", help="the rows of one strategy")
    options = parser.parse_args()
    rows = SMOKE_ROWS if options.smoke else ROWS
    rows = [row for row in rows if options.only in (None, row.strategy)]
    if options.docs and rows != ROWS:
        parser.error("--docs needs all rows")
    example = ["cargo", "build", "--quiet", "--release", "--locked", "-p", "kcoord-bench"]
    subprocess.run([*example, "--example", "assignors"], check=True, cwd=ROOT)
    measured = []
    for number, row in enumerate(rows, 1):
        console.print(f"{number} of {len(rows)}: {row.name}")
        measured.append(measure(row, 0.1 if options.smoke else options.seconds))
    show(measured, console)
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    machine = {"cores": os.cpu_count(), "platform": platform.platform()}
    result = {"machine": machine, "rows": [each.as_json() for each in measured]}
    RESULT.write_text(json.dumps(result, indent=2) + "\n")
    if options.docs:
        write_table(ROOT / "docs" / "benchmarks.md", MARK, markdown(measured))
        console.print("table written to docs/benchmarks.md")
    differing = [each.row.name for each in measured if not each.is_same]
    missed = [each.row.name for each in measured if not each.is_met and not options.smoke]
    for what, names in (("other results than Kafka's", differing), ("goals missed", missed)):
        if names:
            console.print(f"[red]{what}:[/] {'; '.join(names)}")
    return 1 if differing or missed else 0


if __name__ == "__main__":
    sys.exit(main())
