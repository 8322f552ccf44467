"""How long `pykcoord serve` takes to start on many one-member groups with a commit each, from the
whole log and by way of snapshots: `python -m benches.cold_start --groups 1000000`.

Seconds count from the start of the process, Python included, to its ready line. They are only
printed, never gated on. Must only touch folders that it made.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benches.process import cpu_seconds
from benches.workload import SEED, TOPIC, Host, offset_commit, one_member_groups
from pykcoord._native import Node
from pykcoord.log import Append, LogDirectory, Snapshots, snapshotter

SHARDS = 50
SLICE = 20_000


def write_log(root: Path, groups: int) -> int:
    """Writes a log of this many groups, each with the records of its life: three of the group, and
    a commit of one partition. Returns its size in bytes."""
    with LogDirectory.open(root, partitions=SHARDS, flush="os") as log:
        host = Host(SHARDS)
        for first in range(0, groups, SLICE):
            count = min(SLICE, groups - first)
            members = one_member_groups(host, count, f"billing-{first // SLICE:04d}")
            assert all(host.ask(offset_commit(member, 1, count=1) for member in members))
            log.append([Append(*append) for append in host.appends], lambda *_: None)
            host.appends.clear()
            _say(f"  {first + count:,} groups written")
        log.sync()
        return log.size_bytes


def write_snapshots(root: Path) -> int:
    """Those of all shards. Says how many bytes they have."""
    snapshotter._PAUSE_SECONDS = 0
    with LogDirectory.open(root, partitions=SHARDS) as log:
        log.write_snapshots(Snapshots(Node({}, 1, SEED).loader, 1, 1))
    return sum(path.stat().st_size for path in root.rglob("pykcoord.state"))


def start(root: Path, *settings: str) -> tuple[float, float, int, str]:
    """Seconds until ready, of CPU until then, resident MB then, and the ready line."""
    command = [
        sys.executable,
        "-m",
        "pykcoord",
        "serve",
        os.fspath(root),
        "--topic",
        f"{TOPIC}:100",
    ]
    command += ["--listen", "127.0.0.1:0", *(f"--set={setting}" for setting in settings)]
    begun = time.perf_counter()
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            seconds = time.perf_counter() - begun
            used = cpu_seconds(process.pid)
            status = Path(f"/proc/{process.pid}/status").read_text()
        finally:
            process.terminate()
            _, said = process.communicate()  # shown where it fails
    resident = re.search(r"VmRSS:\s*(\d+) kB", status)
    assert resident is not None, f"{line}{said}"
    return seconds, used, int(resident[1]) // 1024, line.strip()


def measure(root: Path, groups: int, starts: int) -> None:
    log_bytes = write_log(root, groups)
    _told(
        "whole log",
        root,
        groups,
        starts,
        f"{log_bytes / 1e6:.0f} MB",
        "pykcoord.snapshot.interval.ms=0",
    )
    begun = time.perf_counter()
    size = write_snapshots(root)
    _say(f"snapshots written in {time.perf_counter() - begun:.1f} s, without pauses")
    _told("by snapshots", root, groups, starts, f"{size / 1e6:.0f} MB")


def _told(way: str, root: Path, groups: int, starts: int, size: str, *settings: str) -> None:
    seen = []
    for _ in range(starts):
        seen.append(start(root, *settings))
        assert f"groups={groups} offsets={groups} " in seen[-1][3], seen[-1]
    seconds, cpu_seconds, resident, line = min(seen)
    load_ms = line.rpartition("load_ms=")[2]
    _say(
        f"{way} ({size}): ready {seconds:.2f} s after the process began, best of {starts}; "
        f"{cpu_seconds:.2f} s of CPU, load_ms={load_ms}, {resident} MB resident"
    )


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--groups", type=int, default=20_000)
    parser.add_argument("--starts", type=int, default=3, help="in each way, the best is told")
    parser.add_argument("--keep", type=Path, help="make the log there, and leave it")
    arguments = parser.parse_args()
    if arguments.keep is not None:
        measure(arguments.keep, arguments.groups, arguments.starts)
        return
    with tempfile.TemporaryDirectory(prefix="pykcoord-cold-start-") as folder:
        measure(Path(folder), arguments.groups, arguments.starts)


if __name__ == "__main__":
    main()
