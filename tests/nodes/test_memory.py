"""What a node takes of memory before it has a group: the pages that no other process shares."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from support import orphans
from support.asked import Asked
from support.hosting import wait_until

pytestmark = pytest.mark.client

# The goal is 40; what is not needed and was imported once took 12.
OWN_MB = 36.0
SMAPS = "smaps_rollup"
HOW = {
    "of several": ["--nodes", "2", "{}"],
    "of a cluster": ["--cluster", "{}"],
}


def own_mb(pid: int) -> float:
    """Beside these a process has the code of libraries, which is there once for all: some 18 MB."""
    pages = dict(re.findall(r"(\w+):\s+(\d+) kB", Path(f"/proc/{pid}/{SMAPS}").read_text()))
    return (int(pages["Private_Clean"]) + int(pages["Private_Dirty"])) / 1024


def answers(address: str, group: str) -> bool:
    with Asked(address) as asked:
        return not asked.ask(9, 7, group_id=group, topics=None, require_stable=False).error_code


@pytest.mark.skipif(not Path("/proc/self", SMAPS).exists(), reason="Linux tells of pages")
@pytest.mark.parametrize("how", HOW)
def test_a_node_without_groups_is_small(how: str, tmp_path: Path) -> None:
    words = [word.format(tmp_path / "data") for word in HOW[how]]
    command = [sys.executable, "-m", "pykcoord", "serve", "--listen", "127.0.0.1:0", *words]
    serving = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    orphans.started(serving)
    try:
        assert serving.stdout is not None
        ready = dict(word.split("=") for word in serving.stdout.readline().split()[2:])
        for address in ready["listen"].split(","):
            wait_until(lambda at=address: any(answers(at, f"g{n}") for n in range(9)), 60)
        pids = [int(pid) for pid in ready.get("pids", str(serving.pid)).split(",")]
        assert max(own_mb(pid) for pid in {serving.pid, *pids}) < OWN_MB
    finally:
        serving.terminate()
        serving.wait(60)
