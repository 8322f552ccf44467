"""Consumer groups over the wire: pykcoord's server beside a Kafka broker, in turns, with the same
program (consumer_load.c).

Heartbeats that change nothing, one member more in each of many groups of one, and members that come
to a large group one after the other, until all have reconciled. It touches no servers and files but
its own.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from benches.kafka.compare import BUILD, JVM_WARM_UPS, Run, Size, console, create_topic
from benches.kafka.rows import Row
from benches.kafka.servers import Kafka, Pykcoord, Server, build_load_generator

KAFKA, OS = "kafka", "os"
# By topic, its partitions: of groups of one, and of the large group.
SMALL, LARGE = ("small", 100), ("large", 1_000)
JOINED_BY = 20  # members, one after the other: the clock of the processor has ticks of 10 ms
# Turns of heartbeats in a round: a virtual machine is a third slower for a second now and then,
# which p99 shows of the server whose turn it is.
BEATS = 3
WARM_UP = ["find", "join", "hb", "storm", "leave"]


@dataclass(frozen=True)
class Load:
    """What the program does: its members, topic and phases."""

    connections: int
    topic: tuple[str, int]
    phases: tuple[str, ...]


def loads(size: Size) -> dict[str, Load]:
    """By what is measured."""
    large = LARGE[1] if size.connections >= 1_000 else size.connections
    return {
        "beats": Load(size.connections, SMALL, ("find", "join", "hb", "leave")),
        "storm": Load(size.connections, SMALL, ("find", "join", "storm", "leave")),
        "crowd": Load(large, LARGE, ("find", "crowd", f"more={JOINED_BY}", "leave")),
    }


def measure(size: Size) -> tuple[dict[str, list[Run]], list[Row]]:
    """The single runs, and the rows."""
    directory = BUILD / "kafka-consumers"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    try:
        with ExitStack() as running:
            kafka = running.enter_context(Kafka(directory / "kafka"))
            topics = dict((SMALL, LARGE))
            own = running.enter_context(Pykcoord(directory / "os", "os", topics=topics))
            for topic in (SMALL, LARGE):
                create_topic(kafka, *topic)
            runs = _rounds(size, {KAFKA: kafka, OS: own})
        return runs, rows(runs, size)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _rounds(size: Size, servers: dict[str, Server]) -> dict[str, list[Run]]:
    program = os.fspath(build_load_generator(BUILD, "consumer_load"))
    runs: dict[str, list[Run]] = {}
    started = 0

    def run(server: Server, load: Load) -> Run:
        nonlocal started
        started += 1
        command = [program, server.address, str(server.pid), str(load.connections)]
        command += [str(size.seconds), load.topic[0], str(load.topic[1]), f"consumers-{started}"]
        result = subprocess.run(
            [*command, *load.phases], capture_output=True, text=True, check=False, timeout=600
        )
        if result.returncode != 0:
            output = server.output.read_text(errors="replace")[-2000:]
            raise RuntimeError(f"{server.name}: {result.stderr}\n{result.stdout}\n{output}")
        lines = [json.loads(line) for line in result.stdout.splitlines()]
        return {line["phase"]: line for line in lines}

    asked = loads(size)
    for name, server in servers.items():
        console.print(f"consumer groups: warming up {server.name}")
        for _ in range(JVM_WARM_UPS if name == KAFKA else 1):
            run(server, Load(size.connections, SMALL, tuple(WARM_UP)))
            run(server, asked["crowd"])
    for number in range(size.rounds):
        for what, load in asked.items():
            for _ in range(min(BEATS, size.storms) if what == "beats" else size.storms):
                for name, server in servers.items():
                    runs.setdefault(f"{name} {what}", []).append(run(server, load))
        console.print(f"consumer groups: round {number + 1} of {size.rounds}")
    return runs


def rows(runs: dict[str, list[Run]], size: Size) -> list[Row]:
    """The rows of the table, from the single runs."""

    def row(name: str, unit: str, what: str, phase: str, **bounds: Any) -> Row:
        def figure(run: Run) -> float:
            told = run[phase]
            cpu_s = max(told["server_cpu_s"], 0.01)
            figures = {
                "/server CPU s": told["count"] / cpu_s,
                "/s": told["count"] / told["seconds"],
                "p50 ms": told.get("p50_ms", 0.0),
                "p99 ms": told.get("p99_ms", 0.0),
                "s until stable": told["seconds"],
                "server CPU s": cpu_s,
                "ms until reconciled": 1e3 * told["seconds"] / told["count"],
                "server CPU ms": 1e3 * cpu_s / told["count"],
            }
            return float(figures[unit])

        sides = ([figure(run) for run in runs[f"{side} {what}"]] for side in (KAFKA, OS))
        return Row.of_rounds(name, unit, *sides, **bounds)

    large = loads(size)["crowd"].connections
    return [
        row("consumer-group heartbeats", "/server CPU s", "beats", "hb", least=2.4),
        row("", "p50 ms", "beats", "hb"),
        row("", "p99 ms", "beats", "hb", most=1 / 3),
        row("", "/s", "beats", "hb"),
        row(
            f"one more joins each of {size.connections:,} consumer groups",
            *("s until stable", "storm", "storm"),
            most=1 / 3,
        ),
        row("", "server CPU s", "storm", "storm"),
        row(
            f"one more joins a consumer group of {large:,}, {LARGE[1]:,} partitions",
            *("ms until reconciled", "crowd", "more"),
            most=1 / 2,
        ),
        row("", "server CPU ms", "crowd", "more", most=1 / 3),
    ]
