"""What the log of a virtual world tells of its groups."""

from __future__ import annotations

from pykcoord._machine import _topic_id
from pykcoord.events import Event
from pykcoord.explain import Report, explain
from pykcoord.explain.logged import logged_events
from pykcoord.shard import record_batch
from pykcoord.virtual import START_MS, World

from .acts import Case


def told_by_log(world: World) -> list[Event]:
    """The events that its log alone tells of the group `g`."""
    names = {bytes(_topic_id(name)): name for name in (*world.topics, "orders")}
    return list(logged_events(map(record_batch, world.log), names, "g"))


def both(case: Case) -> tuple[Report, Report]:
    """What the recorder tells of a case, and what the log tells."""
    world = World({"orders": case.partitions}, **case.settings)
    case.act(world)
    since_ms = getattr(world, "mark", START_MS)
    return explain(world.events, "g", since_ms), explain(told_by_log(world), "g", since_ms)
