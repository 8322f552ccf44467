"""Nodes over one folder that delete rounds every moment: faults, and what is there afterwards."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.members import Members, served_again
from support.probe import Probe

from pykcoord.cluster.looking import read_cluster

pytestmark = [pytest.mark.client, pytest.mark.crash]

# So that rounds go within a second or two.
OFTEN = {
    "pykcoord.cluster.snapshot.interval.ms": 150,
    "pykcoord.cluster.prune.rounds": 40,
}


class Pruning(Members):
    def journals(self) -> dict[int, list[int]]:
        """The numbers of the rounds that stand, of each journal."""
        found = {}
        for journal in (self.folder / "nodes").iterdir():
            try:
                names = [path.name for path in journal.iterdir()]
            except FileNotFoundError:  # it was deleted just now
                continue
            found[int(journal.name, 16)] = sorted(int(n) for n in names if n.isdigit())
        return found

    def incarnation(self, node: int) -> int:
        nodes = read_cluster(str(self.folder)).nodes
        return next((one.incarnation for one in nodes if one.node_id == node), -1)

    def floor(self, incarnation: int) -> int:
        return min(self.journals().get(incarnation, []), default=0)

    def wait_for_pruning(self, node: int) -> None:
        """A node deletes rounds from now on."""
        incarnation = self.incarnation(node)
        floor = self.floor(incarnation)
        self.wait(lambda: self.floor(incarnation) > floor, f"node {node} deletes rounds")


@pytest.fixture
def members(tmp_path: Path) -> Iterator[Pruning]:
    made = Pruning(tmp_path, 2, OFTEN)
    try:
        made.start_all()
        yield made
    finally:
        made.close()


def test_after_rounds_were_deleted_another_node_has_all_and_the_journal_of_the_first_goes(
    members: Pruning, probes: list[Probe]
) -> None:
    members.wait_for_pruning(2)
    gone = members.incarnation(2)
    members.kill(2)
    served_again(members, probes)  # each has found all that was acknowledged: see `Probe.lost`
    members.wait(lambda: len(members.journals()[gone]) == 1, "its fence alone stays")
    members.start(2)
    served_again(members, probes)
    members.wait_for_pruning(1)
    members.kill(1)
    members.kill(2)
    members.start_all()
    served_again(members, probes)
    members.wait(
        lambda: sum(len(rounds) for rounds in members.journals().values()) < 1_000,
        "the store has few rounds",
    )


def test_a_node_that_slept_while_its_rounds_were_deleted_runs_into_its_fence(
    members: Pruning, probes: list[Probe]
) -> None:
    members.wait_for_pruning(2)
    asleep = members.incarnation(2)
    members.processes[2].send_signal(signal.SIGSTOP)
    members.wait(lambda: members.incarnation(2) == -1, "it is fenced")
    served_again(members, probes)
    members.wait(lambda: len(members.journals()[asleep]) == 1, "its fence alone stays")
    (fence,) = members.journals()[asleep]
    members.processes[2].send_signal(signal.SIGCONT)
    members.wait(lambda: any("fenced" in line for line in members.lines[2]), "it says so")
    members.wait(lambda: members.incarnation(2) not in (-1, asleep), "it begins anew")
    assert members.journals()[asleep] == [fence]
    served_again(members, probes)
