"""A fault of the code in a node ends its process, with a line, and others lead its shards,
whichever part of the node it is in. What a peer says that cannot be read is no such fault."""

from __future__ import annotations

import pytest
from support.faulty import FaultyMembers
from support.members import WAIT_S, gap, served_again, spread
from support.probe import Probe

from pykcoord.cluster.looking import read_cluster

pytestmark = [pytest.mark.client, pytest.mark.crash]

FAULTS = ("tick", "action", "task", "callback", "asked", "journal", "turn", "appended")
NODE = 2  # not the controller
GONE_S, SLACK_S = 1.0, 0.5
MEMBERS = FaultyMembers


def test_a_node_ends_and_others_lead_its_shards(
    members: FaultyMembers, probes: list[Probe]
) -> None:
    for fault in FAULTS:
        spread(members)
        since = members.watched_from_now()
        members.strike(NODE, fault)
        assert members.processes[NODE].wait(WAIT_S) == 1, fault
        del members.processes[NODE]
        served_again(members, probes)
        assert gap(probes, since) < GONE_S + SLACK_S, fault
        lines = members.lines[NODE]
        members.wait(lambda lines=lines: "has ended" in lines[-1], f"the last line of {fault}")
        assert any(line.startswith("Traceback") for line in lines), lines
        assert any(f"AssertionError: a fault in {fault}" in line for line in lines), lines
        assert "start it again" in lines[-1], lines
        members.start(NODE)


def test_a_fault_in_what_only_looks_on_ends_nothing(
    members: FaultyMembers, probes: list[Probe]
) -> None:
    spread(members)
    members.strike(NODE, "metrics")
    members.wait(
        lambda: any("a fault in metrics" in line for line in members.lines[NODE]), "it is said"
    )
    served_again(members, probes)
    assert members.processes[NODE].poll() is None


def test_an_answer_that_is_none_is_refused_and_ends_nobody_who_asks(
    members: FaultyMembers, probes: list[Probe]
) -> None:
    spread(members)

    def nodes() -> set[int]:
        return {one.node_id for one in read_cluster(str(members.folder)).nodes}

    members.strike(NODE, "answers")
    members.wait(lambda: NODE not in nodes(), "it is fenced, as who does not answer")
    served_again(members, probes)
    assert members.processes[1].poll() is None
    (line,) = [one for one in members.lines[1] if "cannot be asked" in one][:1]
    assert "what it says cannot be read" in line, line
    (members.faults(NODE) / "answers").unlink()
    spread(members)
