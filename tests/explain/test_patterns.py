"""What a pattern says, of events that are written here one by one."""

from __future__ import annotations

from collections.abc import Iterator

from pykcoord.events import Event, EventMember
from pykcoord.explain import explain

SECOND = 1_000


def _member(number: int) -> EventMember:
    return EventMember(f"member-{number}", f"app-{number}", f"app-{number}", "/10.0.0.1", None)


def _revocations(epoch: int, slow: list[int], quick: list[int]) -> Iterator[Event]:
    """An epoch of a consumer group in which these have partitions to give up, for 6 s or 1 s."""
    at_ms = 60 * SECOND * epoch
    yield Event("group_epoch_bumped", "g", epoch, "topics_changed", timestamp_ms=at_ms)
    for number in (*slow, *quick):
        yield Event("revocation_awaited", "g", epoch, None, _member(number), 2, None, at_ms)
    for numbers, waited_ms in ((quick, SECOND), (slow, 6 * SECOND)):
        for number in numbers:
            yield Event(
                "member_reconciled", "g", epoch, None, _member(number), 2, None, at_ms + waited_ms
            )


def test_who_gives_up_partitions_last_again_and_again() -> None:
    events = [event for epoch in range(2, 6) for event in _revocations(epoch, [1], [2])]
    (pattern,) = explain(events, "g").patterns
    assert pattern.name == "always_waited_for"
    assert "instance app-1" in pattern.text
    assert "gives up partitions" in pattern.text
    assert pattern.evidence == "waited for in 4 of 4 rebalances, up to 6.0 s"
    assert pattern.count == 4


def test_who_gives_up_partitions_late_now_and_then() -> None:
    quick = [event for epoch in range(2, 10) for event in _revocations(epoch, [], [1, 2])]
    slow = [event for epoch in range(10, 13) for event in _revocations(epoch, [1], [2])]
    assert explain([*quick, *slow], "g").patterns == []
