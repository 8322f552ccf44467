"""Writes what this version of the code keeps, for later versions to open: a data directory with a
snapshot, killed while its members lived.

    python tests/recorded/record.py tests/recorded/0.1

Run once for each change of a format, never over a folder that is there: what was recorded stays.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "spark")]

PARTITIONS = 2


def record_directory(directory: Path) -> None:
    """In a process of its own, which ends without closing anything."""
    import pykcoord

    config = pykcoord.Config(
        group_initial_rebalance_delay_ms=0,
        offsets_topic_num_partitions=PARTITIONS,
        pykcoord_snapshot_interval_ms=100,
        pykcoord_snapshot_min_bytes=1,
    )
    coordinator = pykcoord.Coordinator(directory, topics={"orders": 6, "mail": 2}, config=config)
    coordinator.start()
    ann = coordinator.join("billing", ["orders"], client_id="ann")
    bob = coordinator.join("billing", ["orders", "mail"], client_id="bob")
    static = coordinator.join("audit", ["orders"], group_instance_id="auditor")
    gone = coordinator.join("empty", ["mail"])
    for member in (ann, bob, static, gone):
        member.wait()
    while len(ann.assignment) + len(bob.assignment) < 8:
        time.sleep(0.01)
    static.commit(dict.fromkeys(static.assignment, 42))
    gone.close()
    while not list(directory.glob("__consumer_offsets-*/pykcoord.state")):
        time.sleep(0.05)
        static.commit({("orders", 0): 43})
        ann.commit(dict.fromkeys(ann.assignment, 7))
    # Beyond the snapshots.
    bob.commit(dict.fromkeys(bob.assignment, 9))
    static.commit({("orders", 1): 44})
    os._exit(0)


def main() -> None:
    if sys.argv[1] == "--directory":
        record_directory(Path(sys.argv[2]))
    root = Path(sys.argv[1])
    root.mkdir(parents=True)
    directory = root / "data-directory"
    subprocess.run([sys.executable, __file__, "--directory", str(directory)], check=True)
    told = subprocess.run(
        [sys.executable, "-m", "pykcoord", "log", "state", str(directory), "--json"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    for leftover in [directory / ".lock", *directory.glob("*/*.tmp")]:
        leftover.unlink(missing_ok=True)
    expected = {"data-directory": json.loads(told.stdout)}
    (root / "expected.json").write_text(json.dumps(expected, indent=1, sort_keys=True) + "\n")


main()
