"""`python -m pykcoord_spark host` on every kind of cluster that fits one machine.

Clients are served, SIGTERM ends it in seconds, and everything acknowledged is there when it is
started again.

Long: each starts JVMs of its own.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
from support import orphans
from support.hosting import wait_until
from support.probe import Probe
from support.spark_clusters import connect, environment, standalone

pytestmark = [pytest.mark.spark_all, pytest.mark.timeout(900)]

HOSTS = 2
ENDED_SECONDS = 60.0


@pytest.mark.usefixtures("spark_environment")
def test_in_local_mode(tmp_path: Path) -> None:
    served_and_ended(tmp_path, ["--master", "local[2]"])


@pytest.mark.usefixtures("spark_environment")
def test_on_a_standalone_cluster(tmp_path: Path) -> None:
    settings = ("spark.executor.memory=512m", "spark.driver.host=127.0.0.1")
    conf = [part for setting in settings for part in ("--conf", setting)]
    with standalone(tmp_path) as master:
        served_and_ended(tmp_path, ["--master", master, *conf])


@pytest.mark.usefixtures("spark_environment")
def test_through_spark_connect(tmp_path: Path) -> None:
    with connect(tmp_path) as remote:
        served_and_ended(tmp_path, ["--remote", remote])


def served_and_ended(folder: Path, where: Sequence[str]) -> None:
    """Twice on one log; the second time finds what the first acknowledged."""
    acknowledged = dict.fromkeys(("g0", "g1", "g2", "g3"), -1)
    for _ in range(2):
        with job(folder, where) as (process, addresses):
            assert len(addresses) == HOSTS
            acknowledged = committing_when_it_ends(process, addresses, acknowledged)


def committing_when_it_ends(
    process: subprocess.Popen[str],
    addresses: list[tuple[str, int]],
    acknowledged: Mapping[str, int],
) -> dict[str, int]:
    """The last offset of each group that was acknowledged."""
    probes = [Probe(group, lambda: addresses) for group in acknowledged]
    for probe in probes:
        probe.acknowledged = probe.tried = acknowledged[probe.group_id]
        probe.start()
    try:
        wait_until(lambda: all(len(probe.times) > 5 for probe in probes), 60)
        process.send_signal(signal.SIGTERM)
        assert process.wait(ENDED_SECONDS) == 0
    finally:
        for probe in probes:
            probe.stop()
    assert [probe.lost for probe in probes] == [[]] * len(probes)
    return {probe.group_id: probe.acknowledged for probe in probes}


@contextmanager
def job(
    folder: Path, where: Sequence[str]
) -> Iterator[tuple[subprocess.Popen[str], list[tuple[str, int]]]]:
    """The job, when it is ready, and where its hosts listen."""
    command = [
        sys.executable, "-m", "pykcoord_spark", "host", "--shards", "4", "--hosts", str(HOSTS),
        "--log", str(folder / "log"), "--topic", "orders:2", *where,
    ]  # fmt: skip
    process = subprocess.Popen(
        command, env=environment(), stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    orphans.started(process)
    try:
        assert process.stdout is not None
        ready = process.stdout.readline()
        bootstrap = re.search(r"ready bootstrap=(\S+)", ready)
        assert bootstrap is not None, ready
        hosts = [address.rpartition(":") for address in bootstrap[1].split(",")]
        yield process, [(host, int(port)) for host, _, port in hosts]
    finally:
        process.kill()
        process.wait()
        orphans.ended(process)
