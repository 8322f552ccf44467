"""The command line of the faults."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from cluster.faults.striking import Striker
from support.members import probing
from support.probe import Probe
from support.proxied import ProxiedMembers

__all__ = ["main"]

_DESCRIPTION = """\
Start three nodes of a cluster over one folder, and strike them at random: kill -9, SIGSTOP, links
to the store and to each other cut, SIGTERM, shards moved, nodes drained. Clients commit, read and
join meanwhile, and what they saw is judged, round by round (tests/cluster/check); further clients
look over the whole time for what was acknowledged and is lost.

Exit status: 0 nothing wrong was seen, 1 something was.
"""
ROOT = Path(__file__).parents[3]
_ROUND_S = 60.0


class Run:
    """What came of it so far."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.gaps: list[float] = []
        self.wrong: list[str] = []
        self.rounds = 0

    def judge(self, bootstrap: str, seconds: float, groups: int) -> None:
        """One round of clients; its verdict is added. Blocks."""
        command = [
            sys.executable, "-m", "tests.cluster.check", "--bootstrap", bootstrap,
            "--seconds", f"{seconds:.1f}", "--groups", str(groups), "--members", "2", "--json",
        ]  # fmt: skip
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode == 2:
            self.counts["rounds that could not begin"] += 1
            time.sleep(1)  # no topic could be made in the middle of a fault
            return
        told = json.loads(done.stdout)
        self.rounds += 1
        self.counts.update(told["counts"])
        self.gaps += told["gaps"].values()
        self.wrong += [f"{rule} {group}: {text}" for rule, group, text in told["violations"]]


def main() -> int:
    """Returns the exit status."""
    arguments = _parser().parse_args()
    run, seconds = Run(), 60 * arguments.minutes
    with tempfile.TemporaryDirectory(prefix="pykcoord-faults-") as folder:
        nodes = ProxiedMembers(Path(folder), 3)
        try:
            nodes.start_all()
            with probing(nodes) as probes:
                began = time.monotonic()
                striker = Striker(nodes, arguments.seed)
                failures = _strike(striker, began + seconds)
                while (left := began + seconds - time.monotonic()) > 5:
                    run.judge(_bootstrap(nodes), min(_ROUND_S, left), arguments.groups)
                    _progress(run, striker, began, probes)
                failures.join()
                for probe in probes:
                    run.wrong += [f"lost: {text}" for text in probe.lost]
                    probe.lost.clear()  # it is told here
            if striker.error is not None:
                run.wrong.append(f"the faults ended early: {striker.error!r}")
        finally:
            nodes.close()
        if run.wrong and arguments.keep is not None:
            Path(folder).rename(arguments.keep)
    _show(run, striker, probes, time.monotonic() - began)
    return 1 if run.wrong else 0


def _strike(striker: Striker, end: float) -> threading.Thread:
    thread = threading.Thread(target=striker.run, args=(end,), daemon=True)
    thread.start()
    return thread


def _bootstrap(nodes: ProxiedMembers) -> str:
    return ",".join(f"127.0.0.1:{port}" for port in nodes.ports.values())


def _progress(run: Run, striker: Striker, began: float, probes: list[Probe]) -> None:
    told: dict[str, Any] = {
        "seconds": round(time.monotonic() - began),
        "rounds": run.rounds,
        "faults": sum(striker.struck.values()),
        "acknowledged": run.counts["commits acknowledged"],
        "probes": sum(len(probe.times) for probe in probes),
        "wrong": len(run.wrong) + sum(len(probe.lost) for probe in probes),
    }
    sys.stderr.write(json.dumps(told) + "\n")


def _show(run: Run, striker: Striker, probes: list[Probe], seconds: float) -> None:
    gaps = sorted(run.gaps) or [0.0]
    rows = [("minutes", f"{seconds / 60:.1f}"), ("rounds judged", str(run.rounds))]
    rows += [(f"fault: {name}", str(count)) for name, count in striker.struck.most_common()]
    rows += [(name, f"{count:,}") for name, count in run.counts.items()]
    rows += [("commits of probes", f"{sum(len(probe.times) for probe in probes):,}")]
    rows += [("longest gap of a group and round, median", f"{gaps[len(gaps) // 2]:.1f} s")]
    rows += [("longest gap of all", f"{gaps[-1]:.1f} s")]
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        sys.stdout.write(f"{name:{width}}  {value:>12}\n")
    for text in run.wrong:
        sys.stdout.write(f"WRONG {text}\n")
    if not run.wrong:
        sys.stdout.write("Nothing wrong was seen.\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.cluster.faults", description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--minutes", type=float, default=30.0, help="of faults (default 30)")
    parser.add_argument("--seed", type=int, default=1, help="of which and when (default 1)")
    parser.add_argument(
        "--groups", type=int, default=2,
        help="so many that are only committed to, and as many with members (default 2)",
    )  # fmt: skip
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="where the store is kept if something is wrong"
    )
    return parser
