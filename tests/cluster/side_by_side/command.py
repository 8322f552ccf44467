"""The command line: each fault on each cluster, and the rows of the table in docs/cluster.md."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from cluster.check.command import Outcome, check
from cluster.side_by_side.clusters import NODES, Cluster, coordinator, kafka, this_cluster

__all__ = ["main"]

_DESCRIPTION = """\
Start three nodes of a cluster over one folder, then three brokers of Apache Kafka, and have the
same faults befall each while clients commit, join and read. Prints a row for each: the longest gap
in acknowledged commits (median and worst of the groups), commits acknowledged, requests that
failed at clients, and what was lost, overtaken or doubled.

Exit status: 0 nothing wrong was seen, 1 something was.
"""
_BEFORE_S = 8.0
_FAULT_S = 12.0
_LOAD_S = 32.0
# Three brokers of Kafka take so long to restart.
_ROLLING_S = 75.0
_GROUPS = 4
Struck = Iterator[None]


@contextlib.contextmanager
def _killed(cluster: Cluster, node: int) -> Struck:
    cluster.kill(node)
    yield


@contextlib.contextmanager
def _killed_and_back(cluster: Cluster, node: int) -> Struck:
    cluster.kill(node)
    cluster.start(node)
    yield


@contextlib.contextmanager
def _stopped(cluster: Cluster, node: int) -> Struck:
    cluster.send(node, signal.SIGSTOP)
    try:
        yield
    finally:
        cluster.send(node, signal.SIGCONT)


@contextlib.contextmanager
def _ended(cluster: Cluster, node: int) -> Struck:
    cluster.end(node)
    yield


@contextlib.contextmanager
def _rolling(cluster: Cluster, node: int) -> Struck:
    """As an operator does it: the next when all is as it was."""
    for one in NODES:
        cluster.end(one)
        cluster.start(one)
        cluster.settle()
    yield


@contextlib.contextmanager
def _unreached(cluster: Cluster, node: int) -> Struck:
    cluster.cut(node)
    try:
        yield
    finally:
        cluster.join(node)


Fault = Callable[[Cluster, int], contextlib.AbstractContextManager[None]]
# By the words of the table: what is done, and whether to the controller. The load goes on for
# `_LOAD_S`, over a rolling restart for `_ROLLING_S`.
FAULTS: dict[str, tuple[Fault, bool]] = {
    "kill -9 of a node": (_killed, False),
    "kill -9 of a node, which is started again": (_killed_and_back, False),
    "kill -9 of the controller": (_killed, True),
    "SIGSTOP of a node for 12 s": (_stopped, False),
    "SIGSTOP of the controller for 12 s": (_stopped, True),
    "the others do not reach a node for 12 s": (_unreached, False),
    "SIGTERM of a node": (_ended, False),
    "rolling restart of all nodes": (_rolling, False),
}


def main() -> int:
    """Returns the exit status."""
    arguments = _parser().parse_args()
    wanted = [name for name in FAULTS if arguments.only in name]
    is_wrong = False
    kinds = [this_cluster] if arguments.alone else [this_cluster, kafka]
    for kind in kinds:
        with (
            tempfile.TemporaryDirectory(prefix="side-by-side-") as directory,
            kind(Path(directory) / "cluster") as cluster,
        ):
            for name in wanted:
                for _ in range(arguments.rounds):
                    outcome = _one(cluster, *FAULTS[name])
                    is_wrong = is_wrong or bool(outcome.violations)
                    sys.stdout.write(_row(name, cluster.name, outcome) + "\n")
                    sys.stdout.flush()
                    for one in outcome.violations:
                        sys.stderr.write(f"WRONG ({one.rule}) {one.group}: {one.text}\n")
    return int(is_wrong)


def _one(cluster: Cluster, fault: Fault, is_of_controller: bool) -> Outcome:
    cluster.settle()
    controller = cluster.controller()
    node = controller if is_of_controller else next(one for one in NODES if one != controller)
    name = _name_at(cluster, node)
    nodes = [
        (host, int(port)) for host, _, port in (a.rpartition(":") for a in cluster.addresses())
    ]
    errors: list[Exception] = []
    seconds = _ROLLING_S if fault is _rolling else _LOAD_S

    def strike() -> None:
        time.sleep(_BEFORE_S)
        try:
            with fault(cluster, node):
                time.sleep(_FAULT_S)
        except Exception as error:
            errors.append(error)

    async def load() -> Outcome:
        thread = threading.Thread(target=strike, daemon=True)
        checking = asyncio.ensure_future(check(nodes, seconds, groups=_GROUPS, name=name))
        thread.start()
        outcome = await checking
        await asyncio.to_thread(thread.join)
        return outcome

    outcome = asyncio.run(load())
    if errors:
        raise errors[0]
    return outcome


def _name_at(cluster: Cluster, node: int) -> str:
    """A name of the check by which this node coordinates one of its groups."""
    while True:
        name = f"check-{time.time_ns():x}"
        if coordinator(cluster, f"{name}-committed-0") == node:
            return name


def _row(fault: str, name: str, outcome: Outcome) -> str:
    gaps = sorted(outcome.gaps.values())
    acknowledged = outcome.counts()["commits acknowledged"]
    return (
        f"| {fault} | {name} | {statistics.median(gaps):.1f} s, {gaps[-1]:.1f} s "
        f"| {acknowledged:,} | {sum(outcome.errors.values()):,} | {len(outcome.violations)} |"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.cluster.side_by_side", description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--only", default="", metavar="WORDS", help="faults that have these words")
    parser.add_argument("--alone", action="store_true", help="without Kafka")
    parser.add_argument("--rounds", type=int, default=1, help="of each fault (default 1)")
    return parser
