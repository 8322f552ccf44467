"""pykcoord beside Kafka, over the wire and in process, in one run: `python -m benches.kafka.run`.

Prints one table, writes it with all that was measured to build/bench/compare.json (where some rows
alone were measured, or in small: compare-part.json). With --docs it writes the table of
docs/benchmarks.md and the figures of README.md. Exit status 1 when a goal is missed.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.metadata
import json
import os
import platform
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

from benches.counts import compiler, write_table
from benches.kafka import cold, consumer_wire, in_process
from benches.kafka.compare import BUILD, FULL, SMOKE, Run, Size, compare, console
from benches.kafka.rows import Row, headlines, markdown, show
from benches.kafka.servers import VERSION

ROOT = Path(__file__).parents[2]
MARK = "<!-- make bench-kafka -->\n"
WIRE, CONSUMERS, COLD = "wire", "wire, consumer groups", "cold start"
ROUNDS_IN_PROCESS = 3
WHOLE, PART = BUILD / "compare.json", BUILD / "compare-part.json"


def measure(
    size: Size, arguments: argparse.Namespace, names: list[str]
) -> tuple[list[Row], dict[str, list[Run]]]:
    """The rows in the order of `names`, and the single runs of the load generator."""
    rows: list[Row] = []
    runs: dict[str, list[Run]] = {}
    if WIRE in names:
        runs, rows = compare(size, arguments.pin)
    if CONSUMERS in names:
        of_consumers, more = consumer_wire.measure(size)
        runs |= {f"consumers {name}": each for name, each in of_consumers.items()}
        rows += more
    if COLD in names:
        rows += cold.measure(size, 1 if arguments.smoke else cold.STARTS)
    chosen = [name for name in names if name not in (WIRE, CONSUMERS, COLD)]
    if chosen:
        in_process.build()
    works = in_process.measurements(arguments.rounds or ROUNDS_IN_PROCESS, arguments.smoke)
    for number, name in enumerate(chosen, 1):
        console.print(f"in process, {number} of {len(chosen)}: {name}")
        rows += works[name]()
    return rows, runs


def machine() -> dict[str, object]:
    model = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True)
    return {
        "processor": model[1] if model else platform.processor(),
        "cores": os.cpu_count(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "java": java.stderr.splitlines()[0],
        "rust": compiler(),
        "kafka": VERSION,
        "pykcoord": importlib.metadata.version("pykcoord"),
        "commit": commit(),
        "date": time.strftime("%Y-%m-%d"),
    }


def commit() -> str:
    """HEAD, with a plus where the tree differs from it."""
    command = ["git", "describe", "--always", "--exclude=*", "--dirty=+"]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return told.stdout.strip() if told.returncode == 0 else "unknown"


def write_documents(rows: list[Row], on: dict[str, object]) -> None:
    about = (
        f"`make bench-kafka BENCH_ARGS=--docs` measured this on {on['date']} at "
        f"{on['commit']}: Kafka {on['kafka']} and pykcoord {on['pykcoord']} in turns, medians. "
        f"Over the wire: {FULL.connections:,} connections with one request outstanding on each, "
        "the server on one core and, where it sends many replies, on what the load leaves of the "
        "other. In process: Kafka's own classes in a warm JVM, and the core. "
        f"{on['cores']} cores of {on['processor']}, {on['platform']}; {on['java']}; "
        f"Python {on['python']}; {on['rust']}. Not compared: replication, TLS and "
        "authentication, which pykcoord has not. Assignors have a table of their own below."
    )
    table = f"{textwrap.fill(about, 128)}\n\n{markdown(rows)}"
    write_table(ROOT / "docs" / "benchmarks.md", MARK, table)
    write_table(ROOT / "README.md", MARK, headlines(rows))
    console.print("tables written to docs/benchmarks.md and README.md")


def main() -> int:
    names = [WIRE, CONSUMERS, COLD, *in_process.measurements(1, is_smoke=True)]
    parser = argparse.ArgumentParser(
        prog="python -m benches.kafka.run",
        description="pykcoord beside Kafka, in turns, over the wire and in process.",
        epilog="example: make bench-kafka BENCH_ARGS='-k heartbeats'",
    )
    parser.add_argument("-k", metavar="TEXT", help=f"rows that contain it: {', '.join(names)}")
    parser.add_argument("--docs", action="store_true", help="write docs and README.md")
    parser.add_argument(
        "--last", action="store_true", help="measure nothing: what the last run found"
    )
    parser.add_argument("--smoke", action="store_true", help="small, and gates nothing")
    parser.add_argument("--pin", action="store_true", help="keep the load generator on core 1")
    parser.add_argument("--rounds", type=int, help="how often each side is measured")
    arguments = parser.parse_args()
    chosen = [name for name in names if (arguments.k or "") in name]
    if not chosen:
        parser.error(f"no row contains {arguments.k!r}; there are {', '.join(names)}")
    if arguments.docs and (chosen != names or arguments.smoke):
        parser.error("--docs needs all rows, in full size")
    if arguments.last:
        return tell(last(only_whole=arguments.docs), arguments)
    size = SMOKE if arguments.smoke else FULL
    if arguments.rounds:
        size = dataclasses.replace(size, rounds=arguments.rounds)
    # So that the servers are ended with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    on, started = machine(), time.monotonic()
    rows, runs = measure(size, arguments, chosen)
    BUILD.mkdir(parents=True, exist_ok=True)
    is_whole = chosen == names and not arguments.smoke
    result = {
        "size": vars(size),
        "is_whole": is_whole,
        "machine": on,
        "seconds": round(time.monotonic() - started),
        "rows": [row.as_json() for row in rows],
        "runs": runs,
    }
    path = WHOLE if is_whole else PART
    path.write_text(json.dumps(result, indent=2) + "\n")
    return tell(path, arguments)


def last(only_whole: bool) -> Path:
    """The file of the last run, or of the last whole one."""
    there = [path for path in ((WHOLE,) if only_whole else (WHOLE, PART)) if path.exists()]
    if not there:
        what = "no whole run was" if only_whole else "nothing was"
        sys.exit(f"{what} measured yet: {WHOLE} is not there; leave out --last")
    return max(there, key=lambda path: path.stat().st_mtime)


def names_of_missed(rows: list[Row]) -> list[str]:
    """A row without a name is told with that of the row to which it belongs."""
    told, name = [], ""
    for row in rows:
        name = row.name or name
        if row.is_met is False:
            told.append(f"{name}, {row.unit}")
    return told


def tell(path: Path, arguments: argparse.Namespace) -> int:
    """What the run that wrote this found."""
    result = json.loads(path.read_text())
    if arguments.docs and not result["is_whole"]:
        sys.exit(f"{path} has some rows alone, or in small: --docs needs all of them")
    rows = [Row.of_json(row) for row in result["rows"]]
    size = result["size"]
    title = (
        f"{size['connections']} connections, one request outstanding each, {size['rounds']} rounds"
    )
    show(rows, title, console)
    console.print(f"{result['seconds']} s; written to {path.relative_to(ROOT)}")
    console.print("assignors have a run and a table of their own: make bench-assignors")
    if arguments.docs:
        write_documents(rows, result["machine"])
    missed = names_of_missed(rows)
    if missed and size["groups"] >= FULL.groups:
        console.print(f"[red]missed:[/] {', '.join(missed)}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
