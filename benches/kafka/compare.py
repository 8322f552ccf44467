"""pykcoord's server beside a real Kafka broker, in turns on this machine.

Each round loads Kafka, then pykcoord (`--flush os`, as Kafka does), then pykcoord with `--flush
commit`, and kfake where there is Go, all with the same program (load.c); figures are medians of the
rounds. Afterwards both read the log that Kafka wrote; and 100,000 one-member groups and a million
offsets are weighed, in Kafka's broker and in pykcoord's core. It touches no servers and files but
its own.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console

from benches.counts import build_program, weigh
from benches.kafka.rows import Row, told_figure
from benches.kafka.servers import (
    PARTITIONS,
    TOPIC,
    Kafka,
    Kfake,
    Pykcoord,
    Server,
    build_kfake,
    build_load_generator,
)

BUILD = Path(__file__).parents[2] / "build" / "bench"
COMMITTED = 5  # partitions of a commit and of a fetch
OFFSETS_A_GROUP = 100
KAFKA, OS, SYNCED, KFAKE = "kafka", "os", "commit", "kfake"
ALL_PHASES = ["find", "join", "hb", "commit", "fetch", "leave"]
A_TENTH = 10  # of a group leaves it at once
WARM_UP = ["find", "join", "hb", "commit", "fetch", "storm", "leave"]
JVM_WARM_UPS = 3  # its compiler takes this long until the hot code is compiled
LONGER_LOG = ["find", "join", "commit", "leave"]  # of OFFSETS_A_GROUP partitions, to be recovered
STORM = ["find", "join", "storm", "leave"]
SYNCED_PHASES = ["find", "join", "commit", "leave"]

console = Console(width=None if sys.stdout.isatty() else 140)


@dataclass(frozen=True)
class Size:
    """How much is measured. The smoke size only shows that everything still works."""

    connections: int
    few: int  # connections, where they are few
    crowd: int  # members of a group, where they are many
    seconds: float
    rounds: int
    storms: int  # a round: a storm is short, and a single one is too noisy
    groups: int
    offset_groups: int


FULL = Size(
    connections=2000, few=200, crowd=100, seconds=5, rounds=3, storms=5,
    groups=100_000, offset_groups=10_000,
)  # fmt: skip
SMOKE = Size(
    connections=50, few=10, crowd=10, seconds=0.5, rounds=1, storms=1,
    groups=500, offset_groups=100,
)  # fmt: skip

Phase = dict[str, float]
Run = dict[str, Phase]  # by name of the phase
Speeds = tuple[list[float], list[float]]  # of rounds: Kafka's and pykcoord's


class Load:
    """The load generator, with a prefix of its own for the groups of each run."""

    def __init__(self, size: Size, pin: bool) -> None:
        self._program = build_load_generator(BUILD)
        self._size = size
        self._pin = ["taskset", "-c", "1"] if pin else []
        self._runs = 0

    def run(
        self,
        server: Server,
        phases: list[str],
        partitions: int = COMMITTED,
        connections: int | None = None,
    ) -> Run:
        self._runs += 1
        seconds = str(self._size.seconds)
        command = [*self._pin, os.fspath(self._program), server.address, str(server.pid)]
        command += [str(connections or self._size.connections), seconds, str(partitions)]
        command += [f"load-group-{self._runs}", *phases]
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
        if result.returncode != 0:
            output = server.output.read_text(errors="replace")[-2000:]
            raise RuntimeError(f"{server.name}: {result.stderr}\n{result.stdout}\n{output}")
        lines = [json.loads(line) for line in result.stdout.splitlines()]
        return {line["phase"]: line for line in lines}


def create_topic(server: Server, name: str = TOPIC, partitions: int = PARTITIONS) -> None:
    """Where the server was not told of the topic on its command line."""
    admin = AdminClient({"bootstrap.servers": server.address})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(60)


def measure_rounds(size: Size, load: Load, servers: dict[str, Server]) -> dict[str, list[Run]]:
    phases = dict.fromkeys(servers, ALL_PHASES) | {SYNCED: SYNCED_PHASES}
    for name, server in servers.items():
        console.print(f"warming up {server.name}")
        for _ in range(JVM_WARM_UPS if name == KAFKA else 1):
            load.run(server, WARM_UP)
    crowds = ["find", f"crowd={size.crowd}", f"lose={max(1, size.crowd // A_TENTH)}", "leave"]
    kinds = ("", " few", " storm", " crowds")
    runs: dict[str, list[Run]] = {name + kind: [] for name in servers for kind in kinds}
    for number in range(size.rounds):
        for name, server in servers.items():
            run = load.run(server, phases[name])
            runs[name].append(run)
            told = ", ".join(f"{phase} {_brief(run, phase)}" for phase in run if phase != "find")
            console.print(f"round {number + 1}, {server.name}: {told}")
        for _ in range(size.storms):
            for name in (KAFKA, OS):
                runs[f"{name} storm"].append(load.run(servers[name], STORM))
                runs[f"{name} crowds"].append(load.run(servers[name], crowds))
        for name in (KAFKA, OS):
            run = load.run(servers[name], ALL_PHASES, connections=size.few)
            runs[f"{name} few"].append(run)
    return runs


def copy_log(kafka: Kafka, pykcoord: Pykcoord) -> None:
    """For pykcoord to start with. Kafka has been stopped."""
    for partition in (kafka.directory / "data").glob("__consumer_offsets-*"):
        shutil.copytree(partition, pykcoord.directory / partition.name)


def measure_recovery(kafka: Kafka, directory: Path, rounds: int) -> Speeds:
    """Kafka restarted on its log with one loading thread, and pykcoord on a copy of that log, in
    `directory`, on one core: records a second in each round."""
    console.print("recovery: both read the log that Kafka wrote")
    kafka.threads = 1
    by_kafka, by_pykcoord = [], []
    for number in range(rounds):
        kafka.start()
        loaded = kafka.loaded()
        kafka.stop()
        pykcoord = Pykcoord(directory / str(number), "os", one_core=True)
        copy_log(kafka, pykcoord)
        os.sync()  # as Kafka's own is since its end: a start syncs what it is to continue
        with pykcoord:
            seconds = pykcoord.loaded().seconds
        shutil.rmtree(pykcoord.directory)
        records = loaded.records or 0
        by_kafka.append(records / max(loaded.seconds, 1e-3))
        by_pykcoord.append(records / max(seconds, 1e-3))
    return by_kafka, by_pykcoord


def measure_recovery_of_groups(size: Size, load: Load, directory: Path) -> Speeds:
    """The same for a log of groups of one member, without commits."""
    kafka = Kafka(directory / "kafka-groups")
    with kafka:
        create_topic(kafka)
        load.run(kafka, ["find", "join", f"fill={size.groups}", "leave"])
    return measure_recovery(kafka, directory / "recovery-groups", size.rounds)


def measure_memory(size: Size, load: Load, kafka: Kafka) -> tuple[float, float]:
    """Bytes of heap of a one-member group, and of a committed offset at 100 a group: what 99 more
    take than the first, so that the group is left out, as it is of the core's."""
    # The memory of requests in flight is there before, as in any server that was busy once.
    warm = size.connections
    load.run(kafka, ["find", "join", f"fill={warm}", "leave"])
    load.run(kafka, [f"fill-offsets={warm}"], OFFSETS_A_GROUP)
    before = kafka.live_bytes()
    load.run(kafka, [f"fill={size.groups}"])
    with_groups = kafka.live_bytes()
    load.run(kafka, [f"fill-offsets={size.offset_groups}"], 1)
    with_one_each = kafka.live_bytes()
    load.run(kafka, [f"fill-offsets={size.offset_groups}"], OFFSETS_A_GROUP)
    one, many = with_one_each - with_groups, kafka.live_bytes() - with_one_each
    offsets = size.offset_groups * (OFFSETS_A_GROUP - 1)
    return (with_groups - before) / size.groups, (many - one) / offsets


def measure_core(size: Size) -> tuple[float, float]:
    """Allocated bytes of the core alone: of a group, and of an offset."""
    console.print("memory of the core alone")
    build_program()
    group, offset, _ = weigh(size.groups, size.offset_groups)
    return group, offset


def rows_of_load(runs: dict[str, list[Run]], size: Size) -> list[Row]:
    def row(
        name: str,
        unit: str,
        figure: Callable[[Run], float],
        own: str,
        kind: str = "",
        **bounds: Any,
    ) -> Row:
        sides = ([figure(run) for run in runs[server + kind]] for server in (KAFKA, own))
        return Row.of_rounds(name, unit, *sides, **bounds)

    def kfake(figure: Callable[[Run], float]) -> str:
        """Its figures, without ratios: it keeps everything in memory, and has no log."""
        found = [figure(run) for run in runs.get(KFAKE, [])]
        return f"kfake {told_figure(statistics.median(found))}" if found else ""

    rows = []
    axes = [
        ("heartbeats", "hb", OS, 2.4, 1 / 3),
        ("commits of 5, written", "commit", OS, 3.5, 1 / 3),
        ("commits of 5, synced", "commit", SYNCED, 2.0, None),
        ("fetches of 5", "fetch", OS, 2.4, 1 / 3),
    ]
    for name, phase, server, least, most_p99 in axes:
        cpu = partial(_per_cpu, phase=phase)
        note = "Kafka's are written, not synced" if server == SYNCED else kfake(cpu)
        rows.append(row(name, "/server CPU s", cpu, server, least=least, note=note))
        for unit, most in (("p50_ms", None), ("p99_ms", most_p99)):
            latency = partial(_field, phase=phase, name=unit)
            note = kfake(latency) if server == OS else ""
            rows.append(row("", unit.replace("_", " "), latency, server, most=most, note=note))
        rows.append(row("", "/s", partial(_per_second, phase=phase), server))
    for name, phase, server, _, _ in axes:
        if server == OS:
            told = f"{name}, {size.few} connections"
            cpu = partial(_per_cpu, phase=phase)
            rows.append(row(told, "/server CPU s", cpu, OS, " few", least=3))
    groups, leave = size.connections // size.crowd, max(1, size.crowd // A_TENTH)
    for name, kind, phase in (
        (f"one more joins each of {size.connections:,} groups", " storm", "storm"),
        (f"{leave} leave each of {groups} groups of {size.crowd}", " crowds", "lose"),
    ):
        for told, unit, what, most in (
            (name, "s until stable", "seconds", 1 / 3),
            ("", "server CPU s", "server_cpu_s", None),
        ):
            rows.append(
                row(told, unit, partial(_field, phase=phase, name=what), OS, kind, most=most)
            )
    return rows


def rows_of_state(
    recovery: Speeds,
    of_groups: Speeds,
    memory: tuple[float, float],
    core: tuple[float, float],
) -> list[Row]:
    rows = [
        Row.of_rounds(
            name, unit, *speeds, least=4, note="a broker's start: cold, loads in 1 thread"
        )
        for name, unit, speeds in (
            ("recovery", "records/s", recovery),
            ("", "of groups/s", of_groups),
        )
    ]
    for name, kafka, own, most in zip(
        ("memory of a one-member group", "of an offset, 100 a group"),
        memory, core, (450, 48), strict=True,
    ):  # fmt: skip
        note = "broker's heap beside our core"
        rows.append(Row(name, "B, live", kafka, own, most_itself=most, note=note))
    return rows


def compare(size: Size, pin: bool) -> tuple[dict[str, list[Run]], list[Row]]:
    directory = BUILD / "kafka"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    load = Load(size, pin)
    kfake = build_kfake(BUILD)
    try:
        kafka = Kafka(directory / "kafka")
        with ExitStack() as running:
            servers: dict[str, Server] = {
                KAFKA: running.enter_context(kafka),
                OS: running.enter_context(Pykcoord(directory / "os", "os")),
                SYNCED: running.enter_context(Pykcoord(directory / "commit", "commit")),
            }
            if kfake is not None:
                servers[KFAKE] = running.enter_context(Kfake(directory / "kfake", kfake))
            else:
                console.print("no Go here: kfake is left out")
            create_topic(servers[KAFKA])
            runs = measure_rounds(size, load, servers)
            load.run(kafka, LONGER_LOG, OFFSETS_A_GROUP)
        recovery = measure_recovery(kafka, directory / "recovery", size.rounds)
        of_groups = measure_recovery_of_groups(size, load, directory)
        kafka = Kafka(directory / "kafka-memory")
        console.print(f"memory of {kafka.name}")
        with kafka:
            create_topic(kafka)
            memory = measure_memory(size, load, kafka)
        of_state = rows_of_state(recovery, of_groups, memory, measure_core(size))
        return runs, rows_of_load(runs, size) + of_state
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _per_cpu(run: Run, phase: str) -> float:
    return run[phase]["count"] / max(run[phase]["server_cpu_s"], 0.01)


def _per_second(run: Run, phase: str) -> float:
    return run[phase]["count"] / run[phase]["seconds"]


def _field(run: Run, phase: str, name: str) -> float:
    # The processor's clock has ticks of 10 ms: less than one is not known.
    return max(run[phase][name], 0.01) if name == "server_cpu_s" else run[phase][name]


def _brief(run: Run, phase: str) -> str:
    if "p99_ms" in run[phase]:
        p99_ms = run[phase]["p99_ms"]
        return f"{_per_cpu(run, phase) / 1000:.0f} k/CPU s p99 {p99_ms:.0f} ms"
    return f"{run[phase]['seconds']:.2f} s"
