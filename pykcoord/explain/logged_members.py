"""Members as records name them, and who owns what from one record to the next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pykcoord.events import EventMember

__all__ = ["LoggedMember", "Places", "change_text", "figures_of", "member_of", "places_of"]

Places = frozenset[tuple[str, int]]
"""Topics and partitions."""


class LoggedMember(NamedTuple):
    """A member: who it is, the topics that it subscribes to, and what it was given."""

    of: EventMember
    topics: frozenset[str]
    owned: Places


def member_of(member_id: str, value: Mapping[str, Any]) -> EventMember:
    """By the fields of a record."""
    instance = value.get("groupInstanceId", value.get("instanceId"))
    return EventMember(member_id, instance, value["clientId"], value["clientHost"], None)


def places_of(assigned: Mapping[str, Iterable[int]]) -> Places:
    """Of topics with their partitions."""
    return frozenset((topic, one) for topic, partitions in assigned.items() for one in partitions)


def change_text(before: frozenset[str], after: frozenset[str]) -> str | None:
    """What of a subscription changed, as the recorder has it; None: nothing."""
    words = [f"+{one}" for one in sorted(after - before)]
    words += [f"-{one}" for one in sorted(before - after)]
    return f"topics: {' '.join(words)}" if words else None


def figures_of(
    before: Mapping[str, Places], after: Mapping[str, Places], replaced: Mapping[str, str]
) -> dict[str, int]:
    """Partitions that moved, and that had to (pykcoord's `group_stable`). `replaced`: members that
    go on under another id."""
    had = {replaced.get(one, one): places for one, places in before.items()}
    owner = {place: one for one, places in after.items() for place in places}
    moved = least = 0
    for one, places in had.items():
        kept = [place for place in places if place in owner]
        moved += sum(owner[place] != one for place in kept)
        least += max(0, len(kept) - len(after.get(one, ())))
    return {"partitions": len(owner), "moved": moved, "least": least}
