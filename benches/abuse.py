"""The effect of attacks on a well-behaved member, beside Kafka: `python -m benches.abuse`.

For each attack of tests/attack a server of each kind is started, and a member sends a heartbeat
every 10 ms from a process of its own; a latency counts from the time at which a heartbeat was due.
In each round it is watched without the attack and with it; the attacker is another process, at the
priority of an idle processor (SCHED_IDLE). Figures are medians of the rounds. Exit status 1 when a
bound is missed.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

# The attacks, and the code that starts both servers, are those of the tests.
sys.path.append(str(Path(__file__).parents[1] / "tests"))

from attack.__main__ import Attacker
from attack.attacks import ATTACKS, OURS_ONLY
from attack.frames import NODE_LEVEL
from attack.heartbeats import Victim
from attack.target import TOPICS
from support.asked import Asked

from benches.kafka.servers import Kafka, Pykcoord, Server

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "build" / "bench" / "abuse.json"
MOST_RATIO = 3.0
# Below this there is no bound: it is a few slices of other work, and a three-hundredth of the time
# between two heartbeats of a consumer.
FLOOR_MS = 10.0
# Of real time; 99 is the most.
_PRIORITY = 10

console = Console(width=None if sys.stdout.isatty() else 150)


@dataclass
class Side:
    """One server under one attack: a figure in milliseconds for each round."""

    without: list[float] = field(default_factory=list)
    under: list[float] = field(default_factory=list)
    worst: list[float] = field(default_factory=list)
    passes: int = 0
    ended: str = ""

    def median(self, name: str) -> float:
        """Infinite where the attack ended the server."""
        values = getattr(self, name)
        return math.inf if self.ended or not values else statistics.median(values)


@dataclass
class Row:
    """One attack, with the figures of both servers."""

    name: str
    pykcoord: Side
    kafka: Side | None

    def missed(self) -> list[str]:
        """The bounds that pykcoord missed, for people."""
        under = self.pykcoord.median("under")
        if self.pykcoord.ended:
            return [self.pykcoord.ended]
        missed = []
        if under > max(FLOOR_MS, MOST_RATIO * self.pykcoord.median("without")):
            missed.append(f"over {MOST_RATIO:g}x of without")
        if self.kafka is None:
            return missed
        if under > max(FLOOR_MS, self.kafka.median("under")):
            missed.append("p99 over Kafka's")
        worst, beside = self.pykcoord.median("worst"), self.kafka.median("worst")
        if self.name in NODE_LEVEL and worst > max(FLOOR_MS, beside):
            missed.append("worst over Kafka's")
        return missed


def measure(name: str, arguments: argparse.Namespace) -> Row:
    """Both servers, in turns, round by round."""
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        servers: list[Server] = [Pykcoord(scratch / "pykcoord", "os")]
        if not arguments.alone and name not in OURS_ONLY:
            servers.append(Kafka(scratch / "kafka"))
        attacked = []
        for server in servers:
            server.directory.mkdir()
            stack.callback(_end, server)
            server.start()
            _create_topics(server)
            victim = stack.enter_context(Victim(server.port))
            attacker = stack.enter_context(Attacker(server.port, name, arguments.scale))
            _keep_apart(server, victim.pid, attacker.pid)
            if arguments.real_time:
                _come_first(server.pid, victim.pid)
                attacker.come_as_any()
            attacked.append((victim, attacker, Side()))
        for _ in range(arguments.rounds):
            for victim, attacker, side in attacked:
                if not side.ended:
                    _round(victim, attacker, side, arguments.seconds)
    return Row(name, attacked[0][2], attacked[1][2] if len(attacked) > 1 else None)


def _keep_apart(server: Server, *clients: int) -> None:
    """Member and attacker share the last processor, where the member comes first; a server of
    pykcoord has the others, and Kafka, which has many threads, all of them. Left to itself the
    scheduler takes a processor with the attacker for a free one, puts the server there, and has
    the member wait for it while another stands idle."""
    *others, last = sorted(os.sched_getaffinity(0))
    for client in clients:
        os.sched_setaffinity(client, {last})
    if others and isinstance(server, Pykcoord):
        for thread in os.listdir(f"/proc/{server.pid}/task"):
            os.sched_setaffinity(int(thread), others)


def _come_first(*processes: int) -> None:
    """Before all that has no real-time priority, the last one first of all, with the threads that
    they have and will have."""
    for priority, process in enumerate(processes, _PRIORITY):
        for thread in os.listdir(f"/proc/{process}/task"):
            os.sched_setscheduler(int(thread), os.SCHED_FIFO, os.sched_param(priority))


def _round(victim: Victim, attacker: Attacker, side: Side, seconds: float) -> None:
    try:
        before = victim.beats()  # while the attack was prepared, or the other side was attacked
        time.sleep(seconds)
        calm = victim.beats()
        passes = attacker.attack(seconds)
        under = victim.beats()
    except (ValueError, OSError):  # one of the processes has ended: no line, or no pipe
        side.ended = "ended"
        return
    if wrong := before.wrong + calm.wrong + under.wrong:
        side.ended = f"the member heard {wrong[0]}"
        return
    if not calm.seconds or not under.seconds:
        side.ended = "no heartbeat was answered"
        return
    side.passes += passes.passes
    side.without.append(1000 * calm.p99)
    side.under.append(1000 * under.p99)
    side.worst.append(1000 * under.worst)


def _create_topics(server: Server) -> None:
    admin = AdminClient({"bootstrap.servers": server.address})
    topics = [NewTopic(topic, partitions, 1) for topic, partitions in TOPICS.items()]
    for created in admin.create_topics(topics).values():
        created.result(30)
    with Asked(server.address) as asked:
        asked.ensure_coordinator("good")


def _end(server: Server) -> None:
    """Ends it at once: a server under attack may take long, or may have ended already."""
    if server.is_running:
        os.kill(server.pid, signal.SIGKILL)
    server.stop()


def show(rows: Sequence[Row]) -> None:
    """Two tables: all attacks by p99, and the worst heartbeat under node-level requests."""
    table = Table(title="p99 of a heartbeat, ms", title_justify="left", header_style="bold")
    table.add_column("attack")
    for column in ("without", "with", "ratio", "Kafka without", "with", "ratio"):
        table.add_column(column, justify="right")
    table.add_column("")
    for row in rows:
        missed = row.missed()
        verdict = f"[red]missed: {', '.join(missed)}[/]" if missed else "[green]met[/]"
        table.add_row(row.name, *_cells(row.pykcoord), *_cells(row.kafka), verdict)
    console.print(table)
    node_level = [row for row in rows if row.name in NODE_LEVEL]
    if node_level:
        table = Table(
            title="worst heartbeat beside one request, ms",
            title_justify="left",
            header_style="bold",
        )
        table.add_column("request")
        for column in ("pykcoord", "Kafka"):
            table.add_column(column, justify="right")
        for row in node_level:
            beside = _ms(row.kafka.median("worst")) if row.kafka else ""
            table.add_row(row.name, _ms(row.pykcoord.median("worst")), beside)
        console.print(table)


def _summary(row: Row) -> str:
    """One row in one line, since a whole run takes most of an hour."""
    sides = [("pykcoord", row.pykcoord), *([("Kafka", row.kafka)] if row.kafka else [])]
    figures = [
        f"{name} {_ms(side.median('without'))} -> {_ms(side.median('under'))} ms"
        for name, side in sides
    ]
    return "; ".join([*figures, *row.missed()])


def _cells(side: Side | None) -> list[str]:
    if side is None:
        return ["", "", ""]
    without, under = side.median("without"), side.median("under")
    ratio = f"{under / without:.1f}x" if math.isfinite(under) else side.ended
    return [_ms(without), _ms(under), ratio]


def _ms(value: float) -> str:
    return f"{value:,.1f}" if math.isfinite(value) else "-"


def main() -> int:
    arguments = _parsed()
    names = [name for name in ATTACKS if re.search(arguments.k, name, re.IGNORECASE)]
    if not names:
        console.print(f"no attack matches {arguments.k!r}; there are {', '.join(ATTACKS)}")
        return 2
    rows = []
    for number, name in enumerate(names, 1):
        console.print(f"{number} of {len(names)}: {name}")
        rows.append(measure(name, arguments))
        console.print(f"  {_summary(rows[-1])}")
        RESULT.parent.mkdir(parents=True, exist_ok=True)
        RESULT.write_text(json.dumps([asdict(row) for row in rows], indent=1))
    show(rows)
    console.print(
        f"{arguments.rounds} rounds of {arguments.seconds:g} s without and with; bounds: at most "
        f"{MOST_RATIO:g}x of without and Kafka's own, or {FLOOR_MS:g} ms; {os.cpu_count()} cores"
    )
    return 1 if any(row.missed() for row in rows) else 0


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benches.abuse",
        description="What a well-behaved member feels of an attack, beside Kafka.",
        epilog="example: python -m benches.abuse -k 'metadata|garbage' --rounds 3",
    )
    parser.add_argument("-k", metavar="PATTERN", default="", help="attacks whose names match")
    parser.add_argument("--rounds", type=int, default=5, help="without and with, so often (5)")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each, at least (2)")
    parser.add_argument("--scale", type=float, default=1.0, help="1: the size that hurts")
    parser.add_argument("--alone", action="store_true", help="without Kafka")
    parser.add_argument(
        "--real-time",
        action="store_true",
        help="servers and members come first on this machine, the attacker as any process: what "
        "is left is what the server does, however busy the machine is (as root)",
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
