"""The benchmarks of Spark run, in their small size."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

ROOT = Path(__file__).parents[2]


@pytest.mark.spark_all
@pytest.mark.timeout(900)
def test_each_axis_gives_a_figure(java: str) -> None:
    command = [sys.executable, "-m", "benches.spark", "--smoke", "--history"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    for axis in (
        "replay beside",
        "assign: 500 groups",
        "records/s",
        "micro-batch of 500",
        "live host, 10 connections: heartbeats",
        "p99 of commits",
        "worker",
    ):
        assert axis in ran.stdout
