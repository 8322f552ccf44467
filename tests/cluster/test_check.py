"""The check of clusters judges rightly, and sees nothing wrong in a cluster whose nodes die."""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster.check.history import NOTHING, Commit, Fetch, History, Join, Share, judge
from hypothesis import given
from hypothesis import strategies as st
from support.members import Members

ROOT = Path(__file__).parents[2]
LOAD_S = 15


def commit(offset: int, began: float, ended: float | None, generation: int = -1) -> Commit:
    return Commit("g", 0, offset, generation, began, ended)


def fetch(offset: int, began: float, ended: float) -> Fetch:
    return Fetch("g", 0, offset, began, ended)


def share(generation: int, member: str, partitions: tuple[int, ...], ended: float) -> Share:
    return Share("g", generation, member, partitions, ended - 0.5, ended)


RIGHT = {
    "nothing was seen": [],
    "a read at the same time sees either": [commit(1, 0, 2), fetch(NOTHING, 1, 3)],
    "what was not acknowledged is there or not": [commit(1, 0, None), fetch(NOTHING, 5, 6)],
    "and may come later": [commit(1, 0, None), fetch(NOTHING, 5, 6), fetch(1, 7, 8)],
    "two writers, in either order": [commit(1, 0, 2), commit(2, 0, 2), fetch(1, 3, 4)],
    "a generation nobody has partitions of comes again": [
        Join("g", 5, "a", 0, 1), Join("g", 5, "b", 2, 3), share(5, "b", (0,), 4),
    ],
    "a commit under way while another generation begins": [
        share(1, "a", (0,), 1), commit(1, 2, 5, 1), share(2, "b", (0,), 4),
    ],
}  # fmt: skip
WRONG = {
    "a lost commit": ("offset", [commit(1, 0, 1), fetch(NOTHING, 2, 3)]),
    "an overtaken read": (
        "offset", [commit(1, 0, 1), commit(2, 2, 3), fetch(1, 4, 5)],
    ),
    "two reads that go back": (
        "offset", [commit(1, 0, 9), fetch(1, 1, 2), fetch(NOTHING, 3, 4)],
    ),
    "what was lost comes back": (
        "offset", [commit(1, 0, 1), commit(2, 2, 3), fetch(2, 4, 5), fetch(1, 6, 7)],
    ),
    "a commit that was never visible": (
        "offset", [commit(1, 0, 1), fetch(1, 1, 2), commit(2, 3, 4), fetch(1, 5, 6)],
    ),
    "what nobody committed": ("offset", [fetch(7, 0, 1)]),
    "what is committed later": ("offset", [fetch(7, 0, 1), commit(7, 2, 3)]),
    "two owners": ("owner", [share(1, "a", (0, 1), 1), share(1, "b", (1,), 2)]),
    "a commit of an old generation": (
        "generation", [share(1, "a", (0,), 1), share(2, "b", (0,), 2), commit(1, 3, 4, 1)],
    ),
    "a generation that goes back": (
        "generation", [share(2, "a", (0,), 1), Join("g", 1, "b", 2, 3)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("seen", RIGHT.values(), ids=RIGHT)
def test_what_may_be_is_not_called_wrong(seen: list[Any]) -> None:
    assert judge(History(seen)) == []


@pytest.mark.parametrize(("rule", "seen"), WRONG.values(), ids=WRONG)
def test_what_may_not_be_is_called_by_its_rule(rule: str, seen: list[Any]) -> None:
    assert [one.rule for one in judge(History(seen))] == [rule]


MOMENTS = st.lists(st.integers(0, 12), min_size=2, max_size=2, unique=True).map(sorted)


@given(st.lists(st.tuples(MOMENTS, st.sampled_from(["write", "unknown", 0, 1, 2])), max_size=5))
def test_the_verdict_is_that_of_trying_every_order(drawn: list[tuple[list[int], Any]]) -> None:
    offsets = itertools.count()
    seen: list[Any] = []
    for (began, ended), what in drawn:
        # A moment of its own for each, as clocks have: ties would be a matter of taste.
        begun, over = began + len(seen) / 100, ended + len(seen) / 100
        if what == "write":
            seen.append(commit(next(offsets), begun, over))
        elif what == "unknown":
            seen.append(commit(next(offsets), begun, None))
        else:
            seen.append(fetch(what - 1, begun, over))
    assert (judge(History(seen)) == []) == any(map(_holds, _orders(seen)))


def _orders(seen: list[Any]) -> Iterator[tuple[Any, ...]]:
    """All orders of what was certainly done and any of what was perhaps done."""
    sure = [one for one in seen if one.ended is not None]
    maybe = [one for one in seen if one.ended is None]
    for count in range(len(maybe) + 1):
        for some in itertools.combinations(maybe, count):
            yield from itertools.permutations([*sure, *some])


def _holds(order: tuple[Any, ...]) -> bool:
    for at, one in enumerate(order):
        if any(later.ended is not None and later.ended < one.began for later in order[at + 1 :]):
            return False
    value = NOTHING
    for one in order:
        if isinstance(one, Commit):
            value = one.offset
        elif one.offset != value:
            return False
    return True


def test_a_history_is_read_as_it_was_written(tmp_path: Path) -> None:
    seen = [one for _, some in WRONG.values() for one in some]
    History(seen).write(tmp_path / "seen")
    assert History.read(tmp_path / "seen").seen == seen
    with (tmp_path / "seen").open("a") as lines:
        lines.write('{"kind": "Dance"}\n')
    with pytest.raises(ValueError, match=f"line {len(seen) + 1} is no line of a history"):
        History.read(tmp_path / "seen")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.cluster.check", *arguments]
    return subprocess.run(command, cwd=ROOT, text=True, capture_output=True, timeout=120)


def test_the_command_says_what_is_wrong_in_a_file_and_what_is_missing(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    History(WRONG["a lost commit"][1]).write(seen)
    judged = run("--judge", str(seen))
    assert judged.returncode == 1
    assert judged.stdout.startswith("WRONG (offset) g: partition 0: ")
    assert run("--judge", str(tmp_path / "none")).returncode == 2
    lacking = run("--seconds", "1")
    assert (lacking.returncode, lacking.stderr.split()[0]) == (2, "--bootstrap")


@pytest.mark.client
@pytest.mark.crash
def test_nothing_is_wrong_while_nodes_are_killed_and_stopped(tmp_path: Path) -> None:
    members = Members(tmp_path, 3)
    try:
        members.start_all()
        command = [
            sys.executable, "-m", "tests.cluster.check", "--bootstrap", members.bootstrap,
            "--seconds", str(LOAD_S), "--groups", "3", "--json",
        ]  # fmt: skip
        checking = subprocess.Popen(command, cwd=ROOT, text=True, stdout=subprocess.PIPE)
        at = time.monotonic()
        faults = [(4, members.kill, 2), (7, members.start, 2), (9, stop, 3), (12, go_on, 3)]
        for second, fault, node in faults:
            time.sleep(max(0.0, at + second - time.monotonic()))
            fault(members, node) if fault in (stop, go_on) else fault(node)
        told = json.loads(checking.communicate(timeout=120)[0])
    finally:
        members.close()
    assert told["violations"] == []
    assert checking.returncode == 0
    assert told["errors"], "the faults were seen"
    counts = told["counts"]
    assert min(counts["commits acknowledged"], counts["offsets read"]) > 30
    assert counts["shares given"] > 9


def stop(members: Members, node: int) -> None:
    members.processes[node].send_signal(signal.SIGSTOP)


def go_on(members: Members, node: int) -> None:
    members.processes[node].send_signal(signal.SIGCONT)
