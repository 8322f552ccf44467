"""Live hosting through every failure, on two executors of this machine: a program of its own.

    cd tests && python -m support.hosting_faults LOG --rounds 3

starts 32 shards on 3 hosts, a real consumer of each kind and a probe for each shard; kills a worker
and an executor, stops a host for 5 s; prints the gaps as JSON and ends with 1 if a commit that was
acknowledged is lost. A gap is the longest time in which a group had no answer, from the fault until
three hosts serve again and no shard moves any more.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pykcoord_spark.hosting.cluster import Cluster
from pyspark.sql import SparkSession

from pykcoord._native import partition_of
from support.hosting import CONFIG, wait_until
from support.hosting_traffic import traffic

SHARDS, HOSTS = 32, 3
LIMITS = {"affected": 2.0, "others": 0.5}
"""What is promised, in seconds."""

# As long as the longest fault, and until the host that was stopped has found out.
_SETTLED_SECONDS = 7.0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m support.hosting_faults", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("log", metavar="LOG", type=Path, help="folder of the shard log, made new")
    parser.add_argument("--rounds", type=int, default=1, help="how often each fault comes")
    parser.add_argument("--fault", choices=FAULTS, action="append", help="only this; repeatable")
    given = parser.parse_args(arguments)
    session = (
        SparkSession.builder.master("local-cluster[2,2,1024]")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.log.level", "OFF")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    try:
        report = _report(session, given.log, (given.fault or list(FAULTS)) * given.rounds)
    finally:
        session.stop()
    print(json.dumps(report))  # noqa: T201
    return 1 if report["lost"] else 0


def _report(session: SparkSession, log: Path, faults: Sequence[str]) -> dict[str, object]:
    groups = {partition_of(str(n), SHARDS): str(n) for n in range(400)}
    assert len(groups) == SHARDS
    cluster = Cluster(
        session, SHARDS, HOSTS, log, topics={"orders": 3}, config=CONFIG, start_seconds=300
    )
    with cluster:
        wait_until(lambda: _is_balanced(cluster), 60)
        with traffic(str(log), groups, cluster.bootstrap) as clients:
            gaps = [_fault(name, cluster, clients) for name in faults]
            lost, latencies = clients("stop")
    latencies.sort()
    return {
        "gaps": gaps,
        "lost": lost,
        "commits": len(latencies),
        "p50_ms": round(1000 * latencies[len(latencies) // 2], 1),
        "p99_ms": round(1000 * latencies[len(latencies) * 99 // 100], 1),
        "load": os.getloadavg(),
    }


def _fault(name: str, cluster: Cluster, clients: Callable[..., Any]) -> dict[str, object]:
    """Longest gaps of the affected groups and of the others, in seconds."""
    nodes = {host.pid: host.node_id for host in cluster.hosts()}
    led = cluster.led()
    victim = next(iter(nodes))
    at = time.monotonic()
    dead = {nodes[pid] for pid in FAULTS[name](victim) if pid in nodes}
    clients("go_on", at + _SETTLED_SECONDS)
    wait_until(lambda: len(cluster.hosts()) == HOSTS and _is_balanced(cluster), 120)
    time.sleep(1)  # for the moves of the last round
    gaps: dict[int, float] = clients("gaps", at)
    affected = {shard: gap for shard, gap in gaps.items() if led[shard] in dead}
    others = {shard: gap for shard, gap in gaps.items() if led[shard] not in dead}
    gap: dict[str, object] = {
        "fault": name,
        "hosts": len(dead),
        "affected": round(max(affected.values()), 3),
        "others": round(max(others.values(), default=0.0), 3),
        "load": round(os.getloadavg()[0], 1),
    }
    print(gap, file=sys.stderr)  # noqa: T201
    for of_some, limit in ((affected, LIMITS["affected"]), (others, LIMITS["others"])):
        shard = max(of_some, key=lambda shard: of_some[shard], default=None)
        if shard is not None and of_some[shard] > limit:
            print(clients("told", shard, at), file=sys.stderr)  # noqa: T201
    return gap


def _kill_worker(pid: int) -> set[int]:
    os.kill(pid, signal.SIGKILL)
    return {pid}


def _kill_executor(pid: int) -> set[int]:
    """The JVM of the executor: its Python daemon and workers go with it."""
    daemon = _parent(pid)
    executor = _parent(daemon)
    siblings = set(_children(daemon))
    os.kill(executor, signal.SIGKILL)
    return siblings


def _stop_host(pid: int) -> set[int]:
    os.kill(pid, signal.SIGSTOP)
    threading.Timer(5, os.kill, (pid, signal.SIGCONT)).start()
    return {pid}


FAULTS: dict[str, Callable[[int], set[int]]] = {
    "worker": _kill_worker,
    "executor": _kill_executor,
    "stop": _stop_host,
}


def _is_balanced(cluster: Cluster) -> bool:
    led = list(cluster.led().values())
    counts = [led.count(host.node_id) for host in cluster.hosts()]
    return len(led) == SHARDS and max(counts) - min(counts) <= 1


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


if __name__ == "__main__":
    sys.exit(main())
