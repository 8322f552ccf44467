"""A process that embeds a coordinator is killed: everything that it reported as committed is
there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pykcoord import Config, Coordinator

_PROGRAM = """
import sys, threading
from pykcoord import Config, Coordinator
coordinator = Coordinator(sys.argv[1], topics={"orders": 4}, config=Config(
    group_initial_rebalance_delay_ms=0, offsets_topic_num_partitions=2))
coordinator.start()
lock = threading.Lock()

def work(partition):
    member = coordinator.join(f"group-{partition}", ["orders"])
    member.wait()
    offset = 0
    while True:
        offset += 1
        member.commit({("orders", partition): offset})
        with lock:
            print(partition, offset, flush=True)

for partition in range(4):
    threading.Thread(target=work, args=(partition,), daemon=True).start()
threading.Event().wait()
"""
CONFIG = Config(group_initial_rebalance_delay_ms=0, offsets_topic_num_partitions=2)


@pytest.mark.crash
@pytest.mark.parametrize("acknowledged", [1, 40, 300])
def test_what_was_acknowledged_outlives_a_kill(tmp_path: Path, acknowledged: int) -> None:
    program = [sys.executable, "-c", _PROGRAM, str(tmp_path)]
    committed: dict[int, int] = {}
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            for _ in range(acknowledged):
                partition, offset = map(int, process.stdout.readline().split())
                committed[partition] = offset
        finally:
            process.kill()
        for line in process.stdout:
            if line.endswith("\n"):
                partition, offset = map(int, line.split())
                committed[partition] = offset
    with Coordinator(tmp_path, config=CONFIG) as coordinator:
        rows = coordinator.offsets().to_pylist()
        found = {row["partition"]: row["offset"] for row in rows}
        assert set(found) >= set(committed)
        # One more may have been committed and not told.
        assert all(0 <= found[key] - offset <= 1 for key, offset in committed.items())
        assert {f"group-{key}" for key in committed} <= set(
            coordinator.groups()["group_id"].to_pylist()
        )
