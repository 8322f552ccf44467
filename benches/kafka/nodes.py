"""Two nodes on one machine beside one process, in turns: `python -m benches.kafka.nodes`.

`pykcoord serve --nodes 2` and `pykcoord serve`, each over a directory of its own, take the same
number of clients in turns (load.c), each of them a member of a group of its own. The servers have
one core and the clients another. On a machine with cores enough each node has one to itself: so
here one node after the other is asked, by as many clients as the one process is. Two that share a
core would cost each other the caches, which is no matter of nodes. `--free` has all of them asked
at once, on the cores that the system gives them. CPU seconds are those of all processes of a side,
its supervisor and the node that waits too.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benches.kafka.servers import Pykcoord, build_load_generator

BUILD = Path(__file__).parents[2] / "build" / "bench"
COMMITTED = 5  # partitions of a commit and of a fetch
PHASES = ["join", "hb", "commit", "fetch", "leave"]
NAMES = {"hb": "heartbeats", "commit": "commits of 5", "fetch": "fetches of 5"}
# The least that a CPU second of two nodes serves, as a share of one's.
GOALS = {"hb": 0.95, "commit": 0.85, "fetch": 0.95}

Rounds = list[tuple[list[dict[str, Any]], list[dict[str, Any]]]]
"""Of each round what came of one process, and of the nodes."""

console = Console(width=None if sys.stdout.isatty() else 120)


class Side(Pykcoord):
    """One process, or a supervisor and `nodes` of them."""

    def __init__(self, directory: Path, nodes: int, arguments: argparse.Namespace) -> None:
        super().__init__(directory, arguments.flush, one_core=not arguments.free)
        self.name = f"{nodes} nodes" if nodes > 1 else "one process"
        self.nodes = nodes

    def command(self) -> list[str]:
        # Compaction comes when it comes, and would be counted.
        several = ["--nodes", str(self.nodes)] if self.nodes > 1 else []
        return [*super().command(), "--set=log.cleaner.enable=false", *several]

    def pids(self) -> str:
        """All processes, as the load generator wants them."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return ",".join([str(self.pid), *children])


def load(side: Side, arguments: argparse.Namespace, number: int) -> list[dict[str, Any]]:
    """One round: what came of each phase, of all nodes or of one after the other."""
    if arguments.free:
        return [_load(side, arguments, f"round-{number}", "find")]
    return [
        _load(side, arguments, f"round-{number}-{node}", f"find={side.port + node}")
        for node in range(side.nodes)
    ]


def _load(side: Side, arguments: argparse.Namespace, name: str, find: str) -> dict[str, Any]:
    command = [
        *([] if arguments.free else ["taskset", "-c", "1"]),
        os.fspath(build_load_generator(BUILD)), side.address, side.pids(),
        str(arguments.connections), str(arguments.seconds), str(COMMITTED), name, find, *PHASES,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode != 0:
        raise RuntimeError(f"{side.name}: {done.stderr}\n{done.stdout}")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {line["phase"]: line for line in lines}


def per_cpu(runs: Sequence[dict[str, Any]], phase: str) -> float:
    seconds = sum(run[phase]["server_cpu_s"] for run in runs)
    return float(sum(run[phase]["count"] for run in runs) / max(seconds, 0.01))


def measure(arguments: argparse.Namespace) -> Rounds:
    """Of each round what one process did, and what the nodes did right after it or before."""
    directory = BUILD / "nodes"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    rounds = []
    with (
        Side(directory / "one", 1, arguments) as one,
        Side(directory / "several", arguments.nodes, arguments) as several,
    ):
        for side in (one, several):
            load(side, arguments, 0)  # warm
        for number in range(1, arguments.rounds + 1):
            order = (one, several) if number % 2 else (several, one)
            ran = {side: load(side, arguments, number) for side in order}
            rounds.append((ran[one], ran[several]))
            told = ", ".join(
                f"{name} {per_cpu(ran[one], phase):,.0f} and {per_cpu(ran[several], phase):,.0f}"
                for phase, name in NAMES.items()
            )
            console.print(f"round {number}, a CPU second: {told}")
    shutil.rmtree(directory, ignore_errors=True)
    return rounds


def show(rounds: Rounds, nodes: int) -> bool:
    """The table; says whether all goals are met: the median of the rounds' ratios."""
    table = Table(title="requests served in a CPU second of the server", header_style="bold")
    for column in ("", "one process", f"{nodes} nodes", "ratio", "of rounds", "goal"):
        table.add_column(column)
    is_met = True
    for phase, name in NAMES.items():
        both = [tuple(per_cpu(run, phase) for run in pair) for pair in rounds]
        ratios = [several / one for one, several in both]
        ratio = statistics.median(ratios)
        is_met &= ratio >= GOALS[phase]
        table.add_row(
            name,
            *(f"{statistics.median(of):,.0f}" for of in zip(*both, strict=True)),
            f"{ratio:.2f}x", f"{min(ratios):.2f}x to {max(ratios):.2f}x", f">= {GOALS[phase]}x",
        )  # fmt: skip
    console.print(table)
    return is_met


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benches.kafka.nodes", description=__doc__.split("\n\n")[0]
    )
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--connections", type=int, default=1000, help="at once (1000)")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each phase (2)")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--flush", default="os", help="of both sides (os)")
    parser.add_argument(
        "--free", action="store_true", help="all at once, no process kept on a core"
    )
    arguments = parser.parse_args()
    return 0 if show(measure(arguments), arguments.nodes) else 1


if __name__ == "__main__":
    sys.exit(main())
