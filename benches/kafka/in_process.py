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
    return Pair(name, "M/s", *asked, groups, least)


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


def _java(*arguments: str) -> list[str]:
    classes = f"{BUILD / 'classes'}{os.pathsep}{BUILD / 'libs' / '*'}"
    logging = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
    return ["java", *HEAP, logging, "-cp", classes, *arguments]


def kafka_ns(pair: Pair, entries: int, is_smoke: bool) -> float:
    """Of one operation: medians of shots, added up over the benchmarks."""
    return sum(_shots(pair, name, entries, is_smoke) for name in pair.benchmarks) / entries


def _shots(pair: Pair, benchmark: str, entries: int, is_smoke: bool) -> float:
    result = BUILD / "jmh.json"

    def shots(operations: int) -> str:
        most = 1 if is_smoke else pair.most_shots
        return str(min(max(LEAST_SHOTS, int(pair.work * operations) // entries), most))

    command = _java("org.openjdk.jmh.Main", f"^pykcoord.benches.{benchmark}$")
    command += ["-f", "1", "-wi", shots(WARM_OPERATIONS), "-i", shots(OPERATIONS)]
    command += ["-jvmArgs", " ".join(HEAP), "-foe", "true", "-p", f"entries={entries}"]
    command += ["-rf", "json", "-rff", os.fspath(result)]
    if pair.each is not None:
        command += ["-p", f"each={pair.each}"]
    if pair.log is not None:
        log = BUILD / f"{pair.log}-{entries}.log"
        if not log.exists() or log.stat().st_mtime < PROGRAM.stat().st_mtime:
            subprocess.run([PROGRAM, "write-log", pair.log, str(entries), log], check=True)
        command += ["-p", f"file={log}"]
    _output(command)
    (told,) = json.loads(result.read_text())
    metric = told["primaryMetric"]
    assert metric["scoreUnit"] == "ns/op", metric["scoreUnit"]
    return statistics.median(metric["rawData"][0])


def pykcoord_ns(axes: Sequence[str], entries: int, is_smoke: bool) -> float:
    """The same; the first round, with cold caches, is left out."""
    seconds = 0.0 if is_smoke else NATIVE_SECONDS

    def median(axis: str) -> float:
        command = [os.fspath(PROGRAM), axis, "--entries", str(entries), "--rounds", "3"]
        lines = _output([*command, "--seconds", str(seconds)]).splitlines()
        rounds = [[int(figure) for figure in line.split()] for line in lines]
        return statistics.median(elapsed / count for count, _, elapsed in rounds[1:])

    return sum(map(median, axes))


def measure(pair: Pair, rounds: int, is_smoke: bool) -> list[Row]:
    entries = min(pair.entries, 2_000) if is_smoke else pair.entries
    ways = [(pair.name, pair.axes), *((name, (axis,)) for name, axis in pair.also)]
    kafka: list[float] = []
    own: list[list[float]] = [[] for _ in ways]
    for _ in range(rounds):
        kafka.append(1e3 / kafka_ns(pair, entries, is_smoke))
        for speeds, (_, axes) in zip(own, ways, strict=True):
            speeds.append(1e3 / pykcoord_ns(axes, entries, is_smoke))
    leasts = [pair.least, *(None for _ in pair.also)]
    return [
        Row.of_rounds(name, pair.unit, kafka, speeds, least=least, note="in process")
        for (name, _), speeds, least in zip(ways, own, leasts, strict=True)
    ]


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
