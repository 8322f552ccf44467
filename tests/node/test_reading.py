"""What of brokers' answers the check of a node leaves out, and how much that is."""

from __future__ import annotations

from cluster.check.history import Commit, Fetch, History, judge

from .reading import stale_reads, without_new_leaders

_NODE, _BROKER = "127.0.0.1:1", "127.0.0.1:2"


def _commit(offset: int, at: float, by: str) -> Commit:
    return Commit("group", 0, offset, -1, at, at + 0.1, by)


def _fetch(offset: int, at: float, by: str) -> Fetch:
    return Fetch("group", 0, offset, at, at + 0.1, by)


def _wrong(*seen: Commit | Fetch) -> int:
    return len(judge(without_new_leaders(History(seen), _NODE)))


def test_a_broker_counts_from_its_first_commit_on() -> None:
    moved = (_commit(1, 0, _NODE), _commit(2, 1, _NODE))
    stale = _fetch(1, 2, _BROKER)
    assert len(judge(History((*moved, stale)))) == 1
    assert _wrong(*moved, stale) == 0
    after = (_commit(3, 3, _BROKER), _fetch(2, 4, _BROKER))
    assert _wrong(*moved, stale, *after) == 1, "by then it knows all"


def test_a_node_counts_always() -> None:
    moved = (_commit(1, 0, _BROKER), _commit(2, 1, _BROKER))
    assert _wrong(*moved, _fetch(1, 2, _NODE)) == 1
    assert _wrong(*moved, _fetch(2, 2, _NODE)) == 0


def test_reads_that_say_less_than_was_acknowledged_are_counted() -> None:
    moved = (_commit(2, 1, _NODE), _commit(1, 0, _NODE), _commit(3, 5, _NODE))
    reads = (_fetch(1, 1.05, _NODE), _fetch(1, 2.1, _BROKER), _fetch(2, 2.2, _BROKER))
    assert stale_reads(History((*moved, *reads))) == [(_BROKER, 1.0)]
