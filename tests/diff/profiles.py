"""The server profiles of the rig's README, and how its command line is called.

Must never change a scenario or an answer: the rig under `rig/` judges alone.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

RIG = Path(__file__).parent / "rig"
GOLDEN = RIG / "golden-kafka-4.4.0.json.gz"
OLDER_GOLDEN = RIG / "golden-kafka-4.3.1.json.gz"
TOPICS = {"diff-t0": 4, "diff-t1": 4}
_COMMON = {
    "group.min.session.timeout.ms": "100",
    "group.max.session.timeout.ms": "1800000",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "5",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "num.partitions": "4",
    "auto.create.topics.enable": "false",
}
PROFILES = {
    "base": _COMMON,
    "alt": {
        **_COMMON,
        "group.initial.rebalance.delay.ms": "300",
        "group.max.size": "3",
        "group.consumer.max.size": "3",
    },
    "expiry": {
        **_COMMON,
        "offsets.retention.check.interval.ms": "600",
        "group.consumer.session.timeout.ms": "1500",
        "group.consumer.heartbeat.interval.ms": "500",
        "group.consumer.assignment.interval.ms": "1000",
    },
}


def rig_command(
    references: Sequence[str], candidates: Mapping[str, str], *arguments: str
) -> list[str]:
    """Returns the command that compares candidates, by profile, with the references."""
    command = [sys.executable, os.fspath(RIG / "diff.py"), *references]
    command += ["--known", os.fspath(RIG / "known.toml")]
    for profile, address in candidates.items():
        command += ["--cand", f"{profile}={address}"]
    return [*command, *arguments]


def run_rig(command: Sequence[str], timeout_s: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
