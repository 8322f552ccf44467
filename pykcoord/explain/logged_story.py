"""Sentences about what a log alone tells: what changed, and that the rest is not in it.

They stand in docs/explain.md as they are printed here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pykcoord.events import Event, EventMember
from pykcoord.explain.parts import WAIT_MS, moved_partitions, numbers, waited_for
from pykcoord.explain.rebalances import LOGGED, Rebalance
from pykcoord.explain.text import counted, duration, listed, member_text, safe, who

__all__ = [
    "LOGGED_LINES",
    "is_of_log",
    "logged_cause",
    "logged_partitions",
    "logged_phases",
    "subscribed",
]

_NOT_TOLD = "whether it left, was removed or fell silent, the log does not tell"
_ALL_NOT_TOLD = "whether they left, were removed or fell silent, the log does not tell"


def logged_cause(of: Rebalance) -> str:
    """What changed with it."""
    tell = _CAUSES.get(of.trigger.cause, _members)
    return tell(of)


def _members(of: Rebalance) -> str:
    came, went = of.came, [one.member for one in of.went if one.member is not None]
    back = {who(one) for one in came} & {who(one) for one in went}
    same = [one for one in came if who(one) in back]
    parts = []
    if same:
        names = listed([member_text(one) for one in same])
        how = "it was" if len(same) == 1 else "they were"
        parts.append(
            f"{names} came in the place of {_its(same)}: {how} started again, or had lost "
            "the membership; the log does not tell which."
        )
    parts += _came(of, [one for one in came if who(one) not in back])
    gone = [one for one in went if who(one) not in back]
    if gone:
        names = listed([member_text(one) for one in gone])
        parts.append(
            f"Member {names} went: {_NOT_TOLD}."
            if len(gone) == 1
            else f"Members {names} went: {_ALL_NOT_TOLD}."
        )
    return " ".join(parts)


def _its(same: list[EventMember]) -> str:
    return "another one of the same client" if len(same) == 1 else "others of the same clients"


def _came(of: Rebalance, came: list[EventMember]) -> Iterator[str]:
    if not came:
        return
    names = listed([member_text(one) for one in came])
    if of.trigger.is_first and not of.went:
        yield f"The group had no members, and {names} joined."
    elif len(came) == 1 and came[0] in of.back:
        name = came[0].group_instance_id or came[0].client_id
        yield f"Member {names} joined: {safe(name)} is back."
    else:
        yield f"{'Member' if len(came) == 1 else 'Members'} {names} joined."


def _subscription(of: Rebalance) -> str:
    changes = (of.trigger.detail or "").removeprefix("topics: ").split(" ")
    shown = listed([subscribed(word) for word in changes if word])
    return f"Member {member_text(of.trigger.member)} changed its subscription: {shown}."


def subscribed(word: str) -> str:
    """`+orders` or `-orders` in words."""
    return f"{'no longer ' if word.startswith('-') else ''}{safe(word[1:])}"


def _partitions(of: Rebalance) -> str:
    told = []
    for words in (of.trigger.detail or "").split(", "):
        topic, before, after = words.rsplit(" ", 2)
        told.append(f"{after} partitions of {safe(topic)}, and {before} before")
    return f"The members are the same; they were given {listed(told)}."


_CAUSES: dict[str, Callable[[Rebalance], str]] = {
    "logged_members": _members,
    "logged_subscription": _subscription,
    "logged_partitions": _partitions,
    "logged_step": lambda of: (
        "The members are the same; they were given partitions that the generation before had left "
        "free, as in the second step of a cooperative rebalance."
    ),
    "logged_topics": lambda of: (
        "The members are the same; topics that they subscribe to came, went, grew, or lie in other "
        "racks: which of these, the log does not tell."
    ),
    "logged_nothing": lambda of: (
        "The members are the same, and subscribe to the same: why they were given partitions anew, "
        "the log does not tell."
    ),
}


def logged_phases(of: Rebalance) -> Iterator[str]:
    """Which generation it led to; how long the join phase took is in no log."""
    said = numbers(of)
    if of.members == 0:
        yield f"{said}: the group is empty."
    elif of.kind == "consumer" and of.ended_ms is not None:
        yield f"{said} in {duration(of.ended_ms - of.started_ms)}."
    elif of.kind == "consumer" and of.interrupted:
        yield f"{said}: another one began before its end."
    elif of.kind == "consumer":
        yield f"{said}: it goes on."
    else:
        yield f"{said}, {counted(of.members or 0, 'member')}."
    if of.skipped:
        were = "one generation was" if of.skipped == 1 else f"{of.skipped:,} generations were"
        yield f"Before it {were} given up: another rebalance began before its leader had assigned."
    if of.is_after_gap:
        yield "Records before it are missing, since the log was compacted."
    took_ms = (of.ended_ms or 0) - (of.joined_ms or 0)
    if of.kind == "classic" and of.leader is not None and took_ms >= WAIT_MS:
        yield f"The leader, {member_text(of.leader)}, took {duration(took_ms)} to assign."
    yield from waited_for(of)


def logged_partitions(of: Rebalance) -> Iterator[str]:
    """What moved, and for how long nothing was committed of it."""
    yield from moved_partitions(of)
    if of.commit_gap_ms is not None and of.commit_gap_ms >= WAIT_MS:
        yield f"Of what moved nothing was committed for up to {duration(of.commit_gap_ms)}."


def _replaced(of: Event) -> str:
    name = member_text(of.member)
    if of.silent_ms is not None:
        away = duration(of.silent_ms)
        return f"Member {name} is back under another member id, {away} after it went."
    return (
        f"Member {name} goes on under another member id: whether it was started again, was removed "
        "and came back, or another process uses its instance id, the log does not tell."
    )


def _first_place(of: Event) -> str:
    place = safe(of.detail or "")
    more = (of.count or 1) - 1
    return f"{place} and {counted(more, 'other partition')}" if more else place


LOGGED_LINES: dict[str, Callable[[Event], str]] = {
    "log_begins": lambda of: (
        f"The log begins in generation or epoch {of.generation_id}, with "
        f"{counted(of.count or 0, 'member')}; what was before is not in it."
    ),
    "instance_replaced": _replaced,
    "instance_away": lambda of: (
        f"Member {member_text(of.member)} went for a while, as static members do; its partitions "
        "wait for it."
    ),
    "offsets_went_back": lambda of: (
        f"The committed offset of {_first_place(of)} went back, by "
        f"{(of.figures or {}).get('records', 0):,} at most."
    ),
    "offsets_removed": lambda of: (
        f"The committed offset of {_first_place(of)} was removed: whether it was deleted or "
        "expired, the log does not tell."
    ),
}


def is_of_log(event: Event) -> bool:
    """Whether it was told by a log alone."""
    return event.kind in LOGGED_LINES or (event.cause or "").startswith(LOGGED)
