"""Kafka's own classes in process beside pykcoord's core, in turns, for benches.kafka.run.

Kafka's side is benches/kafka/java/inprocess, measured by JMH as single shots in a JVM of its own,
warm; pykcoord's is native/bench, with the allocator of the extension. The ratio of a round is that
of its two medians; shown are the ratio of the medians of all rounds, and the spread. Both sides
keep one thread busy, and the JVM's collector has the other core. Only "whole service" has all of
Kafka's threads, on both cores. Only ratios of one run may fail a gate.
"""

from __future__ import annotations

import functools
import json
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

# Maven is found as in the tests.
sys.path.append(str(Path(__file__).parents[2] / "tests"))

from support.kafka.jars import maven

from benches import counts
from benches.counts import build_program, compile_program
from benches.kafka.rows import Row

ROOT = Path(__file__).parents[2]
SOURCES = Path(__file__).parent / "java" / "inprocess"
BUILD = ROOT / "build" / "bench" / "in-process"
PROGRAM = ROOT / "target" / "timed" / "kcoord-bench"
HEAP = ("-Xms4g", "-Xmx8g")
# A million consumer groups are 6.5 GB, which leaves the default collector little of that.
LARGE_HEAP_GB = 12
LARGE_HEAP = (f"-Xms{LARGE_HEAP_GB}g", f"-Xmx{LARGE_HEAP_GB}g", "-XX:+UseParallelGC")
# Shots go on until the compiler is done with the hot code, and then until there are enough for a
# figure.
WARM_OPERATIONS, OPERATIONS = 3_000_000, 2_000_000
LEAST_SHOTS, MOST_SHOTS = 5, 3_000
NATIVE_SECONDS = 1.0

console = Console(width=None if sys.stdout.isatty() else 140)


@dataclass(frozen=True)
class Pair:
    """One measurement on both sides: JMH's benchmarks and native/bench's axes, whose times are
    added up."""

    name: str
    unit: str
    benchmarks: tuple[str, ...]
    axes: tuple[str, ...]
    entries: int
    least: float
    each: int | None = None  # partitions, or operations a key: Kafka's parameter
    log: str | None = None  # the kind of log that is read
    most_shots: int = MOST_SHOTS
    work: float = 1.0  # of the operations that others warm up with and are measured by
    also: tuple[tuple[str, str], ...] = ()  # rows below, without a goal: name and axis
    heap: tuple[str, ...] = HEAP
    tells_processor: bool = False  # a row below: by the time of the thread, without its waits


@dataclass(frozen=True)
class Took:
    """Nanoseconds of one operation; those of the processor for the calling thread alone."""

    elapsed: float
    processor: float = 0.0

    def __add__(self, other: Took) -> Took:
        return Took(self.elapsed + other.elapsed, self.processor + other.processor)


def _heartbeats(groups: int, least: float) -> Pair:
    """A request in, its code out, on both sides; below, with a context of its own for each request
    and an answer with its ticket, which pykcoord's server needs."""
    name = f"heartbeats of {groups:,} groups"
    return Pair(
        name, "M/s", ("Groups.heartbeat",), ("heartbeat-many",), groups, least,
        also=(("with a context and a ticket each", "heartbeat"),),
    )  # fmt: skip


def _of_service(what: str, benchmark: str, axis: str, least: float, each: int = 1) -> Pair:
    """Requests as objects on both sides, 50 partitions; below, what pykcoord's node does from frame
    to frame."""
    framed = axis.replace("sharded", "node").removesuffix("-many")
    return Pair(
        f"whole service: {what}", "M/s", (f"Service.{benchmark}",), (axis,),
        100_000 if benchmark == "heartbeat" else 20_000, least, each=each,
        work=0.3, also=(("from frame to frame", framed),),
    )  # fmt: skip


def _consumer_heartbeats(groups: int, least: float) -> Pair:
    """With a context and a ticket each: there is no other way to ask."""
    name = f"heartbeats of {groups:,} consumer groups"
    asked = ("ConsumerGroups.heartbeat",), ("consumer-heartbeat",)
    heap = LARGE_HEAP if groups >= 1_000_000 else HEAP
    return Pair(name, "M/s", *asked, groups, least, heap=heap, tells_processor=True)


def _new_target(members: int, each: int, work: float) -> Pair:
    """One more member joins, until the targets of all are computed, applied and written."""
    name = f"new target: consumer group of {members:,}, {members * each:,} partitions"
    asked = ("ConsumerGroups.target",), (f"targets-{each}",)
    return Pair(name, "M members/s", *asked, members, 3, each=each, work=work)


PAIRS = [
    _heartbeats(1_000, 5),
    _heartbeats(100_000, 20),
    _heartbeats(1_000_000, 20),
    Pair("commits of 1, recorded", "M/s", ("Groups.commit",), ("commit-1",), 20_000, 4, each=1),
    Pair("commits of 5, recorded", "M/s", ("Groups.commit",), ("commit-5",), 20_000, 4, each=5),
    Pair("fetches of 5", "M/s", ("Groups.fetch",), ("fetch-5",), 20_000, 4, each=5),
    Pair(
        "join and sync, new groups", "M/s", ("Groups.joinAndSync",), ("join-sync",), 20_000, 5,
        work=0.5,
    ),
    _of_service("heartbeats of 100,000 groups", "heartbeat", "node-heartbeat-many", 30),
    _of_service("commits of 1", "commit", "sharded-commit-1", 8, each=1),
    _of_service("commits of 5", "commit", "sharded-commit-5", 8, each=5),
    _of_service("fetches of 5", "fetch", "sharded-fetch-5", 15, each=5),
    Pair("timers added", "M/s", ("Timers.add",), ("timer-add",), 1_000_000, 3),
    Pair("timers cancelled", "M/s", ("Timers.cancel",), ("timer-cancel",), 1_000_000, 5),
    Pair(
        "timers added and expired", "M/s", ("Timers.add", "Timers.expire"),
        ("timer-add", "timer-expire"), 1_000_000, 8, most_shots=5,
    ),
    Pair(
        "purgatory, an operation a key", "M/s", ("Purgatories.watchAndComplete",),
        ("purgatory-1",), 100_000, 5, each=1,
    ),
    Pair(
        "purgatory, 100 a key", "M/s", ("Purgatories.watchAndComplete",),
        ("purgatory-100",), 100_000, 5, each=100,
    ),
    Pair(
        "log of commits read", "M records/s", ("Loading.load",), ("load-commits",), 1_000_000, 5,
        log="commits",
    ),
    _consumer_heartbeats(1_000, 5),
    _consumer_heartbeats(100_000, 15),
    _consumer_heartbeats(1_000_000, 15),
    _new_target(1_000, 100, work=0.03),
    _new_target(10_000, 50, work=0.1),
    Pair(
        "log of consumer groups read", "M records/s", ("Loading.load",), ("load-consumers",),
        200_000, 5, log="consumers",
    ),
    Pair(
        "log of groups read", "M records/s", ("Loading.load",), ("load-groups",), 200_000, 5,
        log="groups",
    ),
]  # fmt: skip
# Kafka's heap after full collections, beside what the core has allocated; pykcoord / Kafka.
MOST_OF_KAFKA = {"group": 1 / 4, "offset": 1 / 2, "single": 1 / 2}


def build() -> None:
    build_program()  # which weighs
    compile_program("timed", ROOT, "--features=mimalloc")
    stamp = BUILD / "built"
    sources = [SOURCES / "pom.xml", *SOURCES.rglob("*.java")]
    if not stamp.exists() or stamp.stat().st_mtime < max(s.stat().st_mtime for s in sources):
        console.print("compiling Kafka's side (Maven, once)")
        maven(SOURCES / "pom.xml", f"-Dtarget={BUILD}", "clean", "package",
              "dependency:copy-dependencies", f"-DoutputDirectory={BUILD / 'libs'}")  # fmt: skip
        stamp.touch()


def _java(*arguments: str, heap: Sequence[str] = HEAP) -> list[str]:
    classes = f"{BUILD / 'classes'}{os.pathsep}{BUILD / 'libs' / '*'}"
    logging = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
    return ["java", *heap, logging, "-cp", classes, *arguments]


def of_kafka(pair: Pair, entries: int, is_smoke: bool) -> Took:
    """Of one operation: medians of shots, added up over the benchmarks."""
    took = sum((_shots(pair, name, entries, is_smoke) for name in pair.benchmarks), Took(0.0))
    return Took(took.elapsed / entries, took.processor / entries)


def _shots(pair: Pair, benchmark: str, entries: int, is_smoke: bool) -> Took:
    result = BUILD / "jmh.json"

    def shots(operations: int) -> str:
        most = 1 if is_smoke else pair.most_shots
        return str(min(max(LEAST_SHOTS, int(pair.work * operations) // entries), most))

    heap = HEAP if is_smoke else pair.heap
    command = _java("org.openjdk.jmh.Main", f"^pykcoord.benches.{benchmark}$", heap=("-Xmx256m",))
    command += ["-f", "1", "-wi", shots(WARM_OPERATIONS), "-i", shots(OPERATIONS)]
    command += ["-jvmArgs", " ".join(heap), "-foe", "true", "-p", f"entries={entries}"]
    command += ["-rf", "json", "-rff", os.fspath(result)]
    if pair.each is not None:
        command += ["-p", f"each={pair.each}"]
    if pair.log is not None:
        log = BUILD / f"{pair.log}-{entries}.log"
        if not log.exists() or log.stat().st_mtime < PROGRAM.stat().st_mtime:
            subprocess.run([PROGRAM, "write-log", pair.log, str(entries), log], check=True)
        command += ["-p", f"file={log}"]
    output = _output(command)
    (told,) = json.loads(result.read_text())
    metric = told["primaryMetric"]
    assert metric["scoreUnit"] == "ns/op", metric["scoreUnit"]
    (elapsed,) = metric["rawData"]
    if not pair.tells_processor:
        return Took(statistics.median(elapsed))
    # Each shot tells; the first ones warm up.
    used = [int(ns) for ns in re.findall(r"processor (\d+) ns", output)][-len(elapsed) :]
    assert len(used) == len(elapsed), output
    return Took(statistics.median(elapsed), statistics.median(used))


def of_pykcoord(axes: Sequence[str], entries: int, is_smoke: bool) -> Took:
    """The same; the first round, with cold caches, is left out."""
    seconds = 0.0 if is_smoke else NATIVE_SECONDS

    def median(axis: str) -> Took:
        command = [os.fspath(PROGRAM), axis, "--entries", str(entries), "--rounds", "3"]
        lines = _output([*command, "--seconds", str(seconds)]).splitlines()
        rounds = [[int(figure) for figure in line.split()] for line in lines]
        counted = rounds[1:]
        # The kernel counts the processor's time by ticks, which are longer than a small round.
        used = sum(used for _, used, _ in counted) / sum(count for count, _, _ in counted)
        return Took(statistics.median(took / count for count, _, took in counted), used)

    return sum(map(median, axes), Took(0.0))


def measure(pair: Pair, rounds: int, is_smoke: bool) -> list[Row]:
    """A row for the pair, then those below it; none where the JVM would not fit."""
    if pair.heap == LARGE_HEAP and not is_smoke and _free_gb() < LARGE_HEAP_GB + 2:
        console.print(f"left out: it needs {LARGE_HEAP_GB + 2} GB that are free")
        return []
    entries = min(pair.entries, 2_000) if is_smoke else pair.entries
    ways = [(pair.name, pair.axes), *((name, (axis,)) for name, axis in pair.also)]
    kafka: list[Took] = []
    own: list[list[Took]] = [[] for _ in ways]
    for _ in range(rounds):
        kafka.append(of_kafka(pair, entries, is_smoke))
        for took, (_, axes) in zip(own, ways, strict=True):
            took.append(of_pykcoord(axes, entries, is_smoke))
    leasts = [pair.least, *(None for _ in pair.also)]
    rows = [
        Row.of_rounds(
            name, pair.unit, [1e3 / took.elapsed for took in kafka],
            [1e3 / one.elapsed for one in took], least=least, note="in process",
        )
        for (name, _), took, least in zip(ways, own, leasts, strict=True)
    ]  # fmt: skip
    if pair.tells_processor and not is_smoke:
        both = ([1e3 / took.processor for took in side] for side in (kafka, own[0]))
        note = "in process; the calling thread, no collector"
        rows.append(Row.of_rounds("", "M/CPU s", *both, note=note))
    return rows


def _free_gb() -> float:
    found = re.search(r"^MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    return int(found[1]) / 2**20 if found else 0.0


def weigh(is_smoke: bool) -> list[Row]:
    """Bytes of a group of one, and of an offset at 100 a group."""
    groups, offset_groups = (1_000, 500) if is_smoke else (100_000, 10_000)
    told = _output(_java("pykcoord.benches.Weigh", str(groups), str(offset_groups))).split()
    kafka = dict(zip(MOST_OF_KAFKA, map(float, told), strict=True))
    own = dict(zip(MOST_OF_KAFKA, counts.weigh(groups, offset_groups), strict=True))
    names = {"group": "memory of a one-member group", "offset": "of an offset, 100 a group",
             "single": "of a group with one offset"}  # fmt: skip
    return [
        Row(names[what], "B, live", kafka[what], own[what],
            most=MOST_OF_KAFKA[what], note="in process")
        for what in MOST_OF_KAFKA
    ]  # fmt: skip


def weigh_consumers(is_smoke: bool) -> list[Row]:
    """Bytes of a consumer group of one: 64 bytes of subscription, ten partitions."""
    groups = 1_000 if is_smoke else 100_000
    kafka = float(_output(_java("pykcoord.benches.WeighConsumers", str(groups))))
    name = "memory of a one-member consumer group"
    own = counts.weigh_consumers(groups)
    return [Row(name, "B, live", kafka, own, most=1 / 4, note="in process")]


def measurements(rounds: int, is_smoke: bool) -> dict[str, Callable[[], list[Row]]]:
    """By name, so that some can be chosen."""
    works: dict[str, Callable[[], list[Row]]] = {
        pair.name: functools.partial(measure, pair, rounds, is_smoke) for pair in PAIRS
    }
    return {
        **works,
        "memory": lambda: weigh(is_smoke),
        "memory of consumer groups": lambda: weigh_consumers(is_smoke),
    }


def _output(command: list[str]) -> str:
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}:\n{result.stdout}{result.stderr}")
    return result.stdout
