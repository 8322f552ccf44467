"""For whom a group waits in its rebalances, again and again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from pykcoord.events import EventMember
from pykcoord.explain.evidence import Past, Pattern
from pykcoord.explain.rebalances import Rebalance
from pykcoord.explain.text import counted, duration, member_text, who

__all__ = ["always_waited"]

_WAITED = 3
_WAITED_MS = 500
# To give up partitions takes a heartbeat, and what was read has to be committed.
_REVOKED_MS = 5_000


def always_waited(past: Past) -> Iterator[Pattern]:
    """Of a classic group: who joins last. Of a consumer group: who gives up partitions last."""
    joins: dict[str, list[_Wait]] = defaultdict(list)
    revocations: dict[str, list[_Wait]] = defaultdict(list)
    with_joins = with_revocations = 0
    for of in past.rebalances:
        if of.kind == "classic" and (of.members or 0) >= 2 and of.joined_ms is not None:
            with_joins += 1
            if (
                of.last is not None
                and (of.waited_ms or 0) >= _WAITED_MS
                and not _is_new(of, of.last)
            ):
                joins[who(of.last)].append(_Wait(of, of.last, of.waited_ms or 0))
        with_revocations += bool(of.revoked)
        for name, wait in _longest_revocations(of).items():
            if wait.waited_ms >= _REVOKED_MS:
                revocations[name].append(wait)
    for waits in _often(joins, with_joins):
        yield _waited_for(
            waits,
            "it joins last again and again.",
            f"the last in {counted(len(waits), 'rebalance')} of {with_joins}, "
            f"up to {_longest(waits)} after the others",
        )
    for waits in _often(revocations, with_revocations):
        yield _waited_for(
            waits,
            "it gives up partitions late again and again.",
            f"waited for in {len(waits)} of {counted(with_revocations, 'rebalance')}, "
            f"up to {_longest(waits)}",
        )


class _Wait(NamedTuple):
    """A rebalance that waited for a member, for so long."""

    rebalance: Rebalance
    member: EventMember
    waited_ms: int


def _is_new(of: Rebalance, last: EventMember) -> bool:
    """Whether the last one to join was not there before: nobody could know of it."""
    return not any(one.member.member_id == last.member_id and not one.is_new for one in of.arrivals)


def _longest_revocations(of: Rebalance) -> dict[str, _Wait]:
    found: dict[str, _Wait] = {}
    for member, _, waited_ms in of.revoked:
        name = who(member)
        if name not in found or found[name].waited_ms < waited_ms:
            found[name] = _Wait(of, member, waited_ms)
    return found


def _often(waits: Mapping[str, list[_Wait]], rebalances: int) -> Iterator[list[_Wait]]:
    return (of for of in waits.values() if len(of) >= _WAITED and 2 * len(of) >= rebalances)


def _longest(waits: list[_Wait]) -> str:
    return duration(max(one.waited_ms for one in waits))


def _waited_for(waits: list[_Wait], how: str, evidence: str) -> Pattern:
    return Pattern(
        "always_waited_for",
        f"Rebalances wait for {member_text(waits[-1].member)}: {how}",
        "Lower its max.poll.records, so that it calls poll() more often.",
        evidence,
        waits[0].rebalance.started_ms,
        waits[-1].rebalance.started_ms,
        len(waits),
    )
