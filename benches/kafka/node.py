"""A node of a Kafka cluster beside a broker of the same cluster, in turns: `python -m
benches.kafka.node`.

Three brokers and a node. Each round has broker 1 lead all of `__consumer_offsets`, then the node,
both with brokers that follow, and both with the same clients (load.c): heartbeats, and commits
that are acknowledged by the ISR. CPU seconds are those of the process that coordinates; the broker
is one of the controllers, too. It touches no servers and files but its own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

# The cluster is that of the tests.
sys.path.append(str(Path(__file__).parents[2] / "tests"))

from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table
from support.kafka.offsets_topic import make_offsets_topic
from support.kafka.three import three_brokers
from support.server import PykcoordServer

from benches.kafka.servers import build_load_generator
from pykcoord.kafka import ClientProperties, Cluster
from pykcoord.node.moving import Mover

BUILD = Path(__file__).parents[2] / "build" / "bench"
NODE, BROKER = 100, 1
COMMITTED = 5  # partitions of a commit
PHASES = ["find", "join", "hb", "commit", "leave"]
# (phase, least ratio of what a CPU second serves)
GOALS = [("hb", 2.4), ("commit", 3.0)]

console = Console(width=None if sys.stdout.isatty() else 120)


class _Placer(Mover):
    """Has one leader for all partitions."""

    async def place(self, replicas: tuple[int, ...]) -> None:
        moves = await self.plan(None, takes=True)
        for move in moves:
            move.then = replicas
        if self._node_id in replicas:
            await self.take(moves, lambda progress: None)
            return
        await self.give_back(moves, lambda progress: None)
        while any(one[0] != replicas[0] for one in (await self._placements()).values()):
            await self._elect([move.partition for move in moves])


class Load:
    """The load generator, with groups of its own for each run."""

    def __init__(self, seconds: float) -> None:
        self._program = os.fspath(build_load_generator(BUILD))
        self._seconds = seconds
        self._runs = 0

    def run(self, address: str, pid: int, connections: int, phases: Sequence[str] = PHASES) -> Any:
        self._runs += 1
        command = [self._program, address, str(pid), str(connections), str(self._seconds)]
        command += [str(COMMITTED), f"load-group-{self._runs}", *phases]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
        if done.returncode != 0:
            raise RuntimeError(f"{address}: {done.stderr}\n{done.stdout}")
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        return {line["phase"]: line for line in lines}


def _place(bootstrap: str, replicas: tuple[int, ...]) -> None:
    async def place() -> None:
        cluster = await Cluster.open(ClientProperties.of({"bootstrap.servers": bootstrap}))
        try:
            await _Placer(cluster, NODE).place(replicas)
        finally:
            await cluster.close()

    asyncio.run(place())


def measure(arguments: argparse.Namespace) -> dict[int, dict[str, list[Any]]]:
    """By connections, the runs of the broker and of the node."""
    directory = BUILD / "kafka-node"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    load = Load(arguments.seconds)
    found: dict[int, dict[str, list[Any]]] = {
        many: {"broker": [], "node": []} for many in arguments.connections
    }
    partitions = {"offsets_topic_num_partitions": str(arguments.partitions)}
    backlog = {"socket_listen_backlog_size": "4096"}
    with three_brokers(directory, **partitions, **backlog) as brokers:
        bootstrap = ",".join(one.address for one in brokers)
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic("topic", 100, 1)])["topic"].result(60)
        make_offsets_topic(bootstrap, "topic")
        joins = ["--kafka", bootstrap, "--as", "node"]
        module = {"module": arguments.module} if arguments.module else {}
        settings = {"node.id": str(NODE)}
        with PykcoordServer(
            directory / "node", settings=settings, arguments=joins, **module
        ) as node:
            sides: dict[str, tuple[str, int, tuple[int, ...]]] = {
                "broker": (brokers[0].address, brokers[0].pid, (BROKER, 2, 3)),
                "node": (node.address, node.pid, (NODE, 2, 3)),
            }
            if arguments.followers == 3:
                sides["node"] = (node.address, node.pid, (NODE, 1, 2, 3))
            for name in arguments.sides:
                address, pid, replicas = sides[name]
                _place(bootstrap, replicas)
                for _ in range(arguments.warm_ups if name == "broker" else 1):
                    load.run(address, pid, arguments.connections[-1])
            for number in range(arguments.rounds):
                for name in arguments.sides:
                    address, pid, replicas = sides[name]
                    _place(bootstrap, replicas)
                    for many, of in found.items():
                        of[name].append(run := load.run(address, pid, many))
                        told = ", ".join(f"{one} {_per_cpu(run, one):,.0f}" for one, _ in GOALS)
                        console.print(f"round {number + 1}, {name}, {many} connections: {told}")
    shutil.rmtree(directory, ignore_errors=True)
    return found


def _per_cpu(run: Any, phase: str) -> float:
    return float(run[phase]["count"] / max(run[phase]["server_cpu_s"], 0.01))


def _median(runs: list[Any], phase: str, field: str) -> float:
    if not runs:
        return float("nan")
    if field == "per_cpu":
        return statistics.median(_per_cpu(run, phase) for run in runs)
    if field == "per_s":
        return statistics.median(run[phase]["count"] / run[phase]["seconds"] for run in runs)
    return statistics.median(float(run[phase][field]) for run in runs)


def show(found: dict[int, dict[str, list[Any]]]) -> bool:
    """The table; says whether all goals are met."""
    table = Table(title="a broker and a node of one cluster, medians", header_style="bold")
    for column in ("", "unit", "broker", "node", "ratio", "of rounds", "goal"):
        table.add_column(column)
    is_met = True
    for many, of in found.items():
        for phase, goal in GOALS:
            for field, unit in (
                ("per_cpu", "/CPU s"), ("per_s", "/s"), ("p50_ms", "p50 ms"), ("p99_ms", "p99 ms"),
            ):  # fmt: skip
                broker, node = (_median(of[side], phase, field) for side in ("broker", "node"))
                is_first = field == "per_cpu"
                each = [
                    _per_cpu(mine, phase) / _per_cpu(other, phase)
                    for other, mine in zip(of["broker"], of["node"], strict=False)
                ]
                spread = f"{min(each):.2f} to {max(each):.2f}" if each and is_first else ""
                is_met &= not is_first or node / broker >= goal
                table.add_row(
                    f"{phase}, {many} connections" if is_first else "", unit,
                    f"{broker:,.1f}", f"{node:,.1f}", f"{node / broker:.2f}x", spread,
                    f">= {goal}x" if is_first else "",
                )  # fmt: skip
    console.print(table)
    return is_met


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benches.kafka.node", description=__doc__.split("\n\n")[0]
    )
    parser.add_argument("--connections", type=int, nargs="+", default=[40, 400])
    parser.add_argument("--seconds", type=float, default=5.0, help="of each phase (5)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm-ups", type=int, default=3, help="of the broker (3)")
    parser.add_argument("--partitions", type=int, default=50, help="of __consumer_offsets (50)")
    parser.add_argument("--followers", type=int, choices=(2, 3), default=2, help="of the node (2)")
    parser.add_argument("--sides", nargs="+", default=["broker", "node"])
    parser.add_argument("--module", help="what is started as the node (pykcoord)")
    return 0 if show(measure(parser.parse_args())) else 1


if __name__ == "__main__":
    sys.exit(main())
