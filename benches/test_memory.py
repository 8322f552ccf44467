"""Memory of a one-member group with its session timer, and of a committed offset at 100 a group.

Growth of a fresh process, next to a coordinator of Python dicts. native/core/tests/memory.rs bounds
allocated bytes, and `make bench-kafka` compares them with Kafka's.
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benches.gate import Size

# Share of the memory of the coordinator of dicts.
MOST_OF_DICTS = {"group": 0.6, "offset": 0.4}

Weights = dict[str, float]  # "group" and "offset" to bytes


@functools.cache
def weigh(way: str, groups: int, offset_groups: int) -> Weights:
    command = [sys.executable, "-m", "benches.memory_probe", way, str(groups), str(offset_groups)]
    root = Path(__file__).parents[1]
    result = subprocess.run(command, capture_output=True, text=True, check=True, cwd=root)
    weights: Weights = json.loads(result.stdout)
    return weights


@pytest.mark.benchmark(group="memory of groups and offsets")
@pytest.mark.parametrize("way", ["node", "dicts"])
def test_memory(benchmark: BenchmarkFixture, size: Size, way: str) -> None:
    """The time is of no interest: the bytes stand in the extra info."""
    groups, offset_groups = size.of(100_000, 500), size.of(10_000, 500)
    weights = benchmark.pedantic(weigh, args=(way, groups, offset_groups), rounds=1)
    told = {f"resident bytes of a {what}": round(value) for what, value in weights.items()}
    benchmark.extra_info.update(told)


@pytest.mark.parametrize("what", ["group", "offset"])
def test_gate_memory(size: Size, what: str) -> None:
    if size.name == "small":
        pytest.skip("what a process grew by says nothing of so little")
    groups, offset_groups = size.of(100_000, 500), size.of(10_000, 500)
    node, dicts = (weigh(way, groups, offset_groups)[what] for way in ("node", "dicts"))
    told = f"resident bytes of a {what}: {node}, dicts {dicts}"
    size.hold(node <= MOST_OF_DICTS[what] * dicts, told)
