"""The core alone, without Python: native/bench/examples/heartbeats.rs, built and run.

100,000 one-member groups, heartbeats in random order. Looking a turn's requests up in stages is
compared with handling them one by one, in the same run. Kafka 4.3.1's bare shard with its timer was
measured at 0.74 M/s and 1,817 B a group (not measured here).
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from benches.gate import Size

# Share of the processor time of heartbeats one by one: a batch overlaps its cache misses.
MOST_IN_BATCHES = 0.75
MOST_BYTES_A_GROUP = 450


@pytest.fixture(scope="module")
def report(size: Size) -> str:
    command = ["cargo", "run", "--quiet", "--release", "--locked", "-p", "kcoord-bench"]
    command += ["--example", "heartbeats", str(size.of(100_000, 2_000))]
    root = Path(__file__).parents[1]
    result = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, text=True, check=True)
    return result.stdout


def nanoseconds(report: str, way: str) -> float:
    match = re.search(rf"{way}: ([\d.]+) ns of processor time", report)
    assert match is not None, report
    return float(match[1])


def test_gate_batches_overlap_their_cache_misses(report: str, size: Size) -> None:
    one_by_one, in_batches = (nanoseconds(report, way) for way in ("one by one", "in batches"))
    size.hold(in_batches <= MOST_IN_BATCHES * one_by_one, report)


def test_gate_memory_of_a_group(report: str, size: Size) -> None:
    match = re.search(r"groups: (\d+) bytes each", report)
    assert match is not None, report
    size.hold(int(match[1]) <= MOST_BYTES_A_GROUP, report)
