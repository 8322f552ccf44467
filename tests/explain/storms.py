"""A storm in virtual time: clients that come and go, in a group with others that stay."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from pykcoord.virtual import Client, World

SECOND = 1_000
STEADY, FLAPPING, PARTITIONS = 20, 200, 220
MINUTES = 10

OFF: dict[str, Any] = {}
INTERVAL = {"group_rebalance_min_interval_ms": 30_000}
QUARANTINE = {"group_quarantine_flaps": 3, "group_quarantine_ms": 30_000}
SETTINGS = {
    "neither": OFF,
    "`group.rebalance.min.interval.ms=30000`": INTERVAL,
    "`group.quarantine.flaps=3`, `group.quarantine.ms=30000`": QUARANTINE,
    "both": INTERVAL | QUARANTINE,
}


@dataclass(frozen=True)
class Outcome:
    """Of the minutes of a storm."""

    rebalances: int
    join_groups: int
    steady_share: float
    """Of the time in which the members that stay had partitions to work on."""
    held: int
    put_off: int


class Restless(Client):
    """Works for half a minute, ends (every second time without a word), and is back 2 s later."""

    def __init__(self, world: World, group: str, client_id: str, chance: random.Random) -> None:
        super().__init__(world, group, client_id, host=f"10.1.0.{client_id}", session_ms=10_000)
        self._chance = chance
        self._ends = 0

    def live(self) -> None:
        self.start()
        self.world.at(self._chance.randrange(20, 40) * SECOND, self._end)

    def _end(self) -> None:
        if not self.is_stable:
            self.world.at(SECOND, self._end)
            return
        self._ends += 1
        if self._ends % 2:
            self.leave()
        else:
            self.die()
        self.world.at(2 * SECOND, self.live)


def storm(settings: dict[str, Any], *, flapping: int = FLAPPING, minutes: int = MINUTES) -> Outcome:
    chance = random.Random(0)
    world = World({"orders": PARTITIONS}, **settings)
    steady = [
        Client(world, "g", f"steady-{number}", host=f"10.0.0.{number}") for number in range(STEADY)
    ]
    for member in steady:
        member.start()
    world.run(60 * SECOND)
    began = len(world.events)
    for number in range(flapping):
        member = Restless(world, "g", str(number), chance)
        world.at(chance.randrange(30 * SECOND), member.live)
    working = looks = 0
    for _ in range(minutes * 60):
        world.run(SECOND)
        working += sum(member.is_stable for member in steady)
        looks += len(steady)
    events = world.events[began:]
    count = {kind: sum(event.kind == kind for event in events) for kind in {e.kind for e in events}}
    return Outcome(
        count.get("rebalance_started", 0),
        count.get("member_joined", 0) + count.get("member_rejoined", 0),
        working / looks,
        count.get("join_held", 0),
        count.get("removal_put_off", 0),
    )
