"""A child of fork: it has no coordinator, hears so at once, and leaves its parent's alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SECONDS = 60.0
# `use` in a child, which says what it raised; afterwards the parent goes on.
PROGRAM = """
import asyncio, concurrent.futures, os, signal, sys
from pykcoord import Config, Coordinator
from pykcoord.errors import CoordinatorClosedError
config = Config(group_initial_rebalance_delay_ms=0, offsets_topic_num_partitions=2)
coordinator = Coordinator(sys.argv[1], topics={"orders": 2}, config=config)
unstarted = Coordinator(sys.argv[1] + "-of-the-child", topics={"orders": 1}, config=config)
coordinator.start()
member = coordinator.join("billing", ["orders"])
member.wait()
outstanding = coordinator.run(asyncio.sleep(60))
parent = os.getpid()
outstanding.add_done_callback(lambda call: os.getpid() == parent or print("of the parent"))
events = coordinator.events()

async def awaited(call):
    return await asyncio.wait_for(asyncio.wrap_future(call), 30)

def use():
    USE

child = os.fork()
if not child:
    signal.alarm(50)
    try:
        use()
    except CoordinatorClosedError as error:
        print(error, flush=True)
    except BaseException as error:
        print("unexpected", repr(error), flush=True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert not outstanding.done()
member.commit({("orders", 0): 3})
print(sorted(member.committed().values()), child, os.getpid())
coordinator.close()
"""


def run(use: str, directory: Path) -> tuple[str, list[str]]:
    """The output of the child, and the actions of the parent."""
    script = PROGRAM.replace("    USE", f"    {use}")
    command = [sys.executable, "-c", script, str(directory / "data")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert ended.returncode == 0, ended.stderr
    *said, parent = ended.stdout.splitlines()
    return "".join(said), parent.split()


@pytest.mark.parametrize(
    "use",
    [
        "member.commit({('orders', 0): 1})",
        "member.wait()",
        "outstanding.result()",
        "raise outstanding.exception()",
        "asyncio.run(awaited(outstanding))",
        "concurrent.futures.wait([outstanding]).done.pop().result()",
        "assert outstanding.done() and not outstanding.cancel(); outstanding.result()",
        "outstanding.add_done_callback(lambda call: print(call.exception()))",
        "next(events)",
        "coordinator.events()",
        "asyncio.run(member.commit_async({('orders', 0): 1}))",
        "coordinator.join('billing', ['orders']); coordinator.topics",
    ],
)
def test_a_child_of_fork_hears_at_once_that_the_coordinator_is_its_parents(
    use: str, tmp_path: Path
) -> None:
    said, (committed, child, parent) = run(use, tmp_path)
    assert f"runs in process {parent}, and process {child} was forked from it" in said
    assert "use the coordinator there" in said
    assert committed == "[3]"


def test_a_child_of_fork_may_close_what_it_does_not_have(tmp_path: Path) -> None:
    said, (committed, *_) = run("member.close(); coordinator.close(); print('closed')", tmp_path)
    assert (said, committed) == ("closed", "[3]")


def test_a_coordinator_that_was_not_started_starts_in_a_child(tmp_path: Path) -> None:
    use = "unstarted.start(); print(unstarted.topics); unstarted.close()"
    said, _ = run(use, tmp_path)
    assert said == "{'orders': 1}"
