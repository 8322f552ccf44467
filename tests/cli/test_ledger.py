"""The demo's account of itself must notice what it promises to notice."""

from __future__ import annotations

from pykcoord.cli.demo.ledger import Ledger


def _settled_pair() -> Ledger:
    ledger = Ledger(2)
    ledger.assigned("ann", 1, {0: 0})
    ledger.assigned("bob", 1, {1: 0})
    ledger.acked(1, {0: 5, 1: 7})
    assert ledger.settle("both joined", ["ann", "bob"]) is not None
    return ledger


def test_a_sound_run_has_no_problems() -> None:
    ledger = _settled_pair()
    ledger.assigned("ann", 2, {0: 5, 1: 7})
    ledger.revoked("bob")
    ledger.acked(2, {0: 6, 1: 8})
    assert ledger.settle("bob left", ["ann"]) is not None
    ledger.check("at the end", {0: 6, 1: 8})
    assert ledger.problems() == []
    assert ledger.acknowledged == 4
    assert ledger.highest_acked() == {0: 6, 1: 8}


def test_a_lost_commit_is_noticed_and_not_forgotten() -> None:
    ledger = _settled_pair()
    ledger.check("after the kill", {0: 4})
    ledger.check("at the end", {0: 5, 1: 7})
    assert ledger.problems() == [
        "partition 0: offset 5 was acknowledged, but 4 is committed after the kill",
        "partition 1: offset 7 was acknowledged, but nothing is committed after the kill",
    ]


def test_a_lost_commit_is_noticed_at_a_handover_whatever_the_order_of_reports() -> None:
    ledger = Ledger(1)
    ledger.assigned("bob", 2, {0: 3})
    ledger.acked(1, {0: 4})
    ledger.acked(2, {0: 9})
    expected = "partition 0: bob resumed at 3 in generation 2, but 4 had been acknowledged"
    assert ledger.problems() == [expected]


def test_a_partition_owned_twice_or_by_nobody_is_noticed() -> None:
    ledger = Ledger(2)
    ledger.assigned("ann", 1, {0: 0})
    ledger.assigned("bob", 1, {0: 0})
    assert ledger.settle("both joined", ["ann", "bob"]) is not None
    assert ledger.problems() == [
        "partition 0: owned by ann and bob after both joined",
        "partition 1: owned by nobody after both joined",
    ]


def test_a_group_has_not_settled_between_generations() -> None:
    ledger = Ledger(2)
    ledger.assigned("ann", 1, {0: 0, 1: 0})
    assert ledger.settle("x", ["ann", "bob"]) is None
    ledger.assigned("bob", 2, {1: 0})
    assert ledger.settle("x", ["ann", "bob"]) is None
    ledger.assigned("ann", 2, {0: 0})
    assert ledger.settle("x", ["ann", "bob"]) is not None
    ledger.revoked("bob")
    assert ledger.settle("x", ["ann"]) is None
