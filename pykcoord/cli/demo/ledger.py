"""What the demo has seen, and whether the promises hold: owners of partitions, acknowledged
commits.

Only data and rules; it starts nothing and waits for nothing. The order in which the consumers'
reports arrive does not matter: every rule goes by generation and offset.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Settled:
    """A moment at which every living consumer had its assignment of the same generation."""

    what: str
    generation: int
    owned: dict[str, tuple[int, ...]]


@dataclass
class Ledger:
    """Everything the consumers reported about `partitions` partitions."""

    partitions: int
    settled: list[Settled] = field(default_factory=list)
    acknowledged: int = 0
    """How many commits of a partition were acknowledged."""
    _owned: dict[str, tuple[int, tuple[int, ...]]] = field(default_factory=dict)
    _acked: dict[int, dict[int, int]] = field(default_factory=dict)
    _lost: list[str] = field(default_factory=list)
    _resumed: list[tuple[str, int, int, int]] = field(default_factory=list)

    def assigned(self, name: str, generation: int, resumed: Mapping[int, int]) -> None:
        """`name` owns the partitions of `resumed`, and read these committed offsets for them."""
        self._owned[name] = (generation, tuple(sorted(resumed)))
        self._resumed += [(name, generation, at, offset) for at, offset in resumed.items()]

    def revoked(self, name: str) -> None:
        """`name` owns nothing until its next assignment."""
        self._owned.pop(name, None)

    def acked(self, generation: int, offsets: Mapping[int, int]) -> None:
        """The coordinator said that these offsets are committed."""
        for partition, offset in offsets.items():
            self.acknowledged += 1
            highest = self._acked.setdefault(partition, {})
            highest[generation] = max(offset, highest.get(generation, 0))

    def highest_acked(self) -> dict[int, int]:
        """The highest acknowledged offset of each partition that has one."""
        return {at: max(of.values()) for at, of in sorted(self._acked.items())}

    def settle(self, what: str, names: Iterable[str]) -> Settled | None:
        """Note the moment, if all of `names` hold an assignment of one generation."""
        names = list(names)
        generations = {self._owned[name][0] for name in names if name in self._owned}
        if len(generations) != 1 or any(name not in self._owned for name in names):
            return None
        owned = {name: self._owned[name][1] for name in names}
        # An eager group may be seen while some have yet to hear of the next generation.
        if sum(len(of) for of in owned.values()) < self.partitions:
            return None
        settled = Settled(what, generations.pop(), owned)
        self.settled.append(settled)
        return settled

    def check(self, when: str, committed: Mapping[int, int]) -> None:
        """Note every acknowledged offset that is missing in what the coordinator holds `when`."""
        for partition, offset in self.highest_acked().items():
            if committed.get(partition, -1) < offset:
                self._lost.append(
                    f"partition {partition}: offset {offset} was acknowledged, "
                    f"but {committed.get(partition, 'nothing')} is committed {when}"
                )

    def problems(self) -> list[str]:
        """Every broken promise, one line each."""
        found = list(self._lost)
        for settled in self.settled:
            found += self._not_owned_once(settled)
        for name, generation, partition, offset in self._resumed:
            before = self._acked.get(partition, {})
            highest = max((of for at, of in before.items() if at < generation), default=0)
            if offset < highest:
                found.append(
                    f"partition {partition}: {name} resumed at {offset} in generation "
                    f"{generation}, but {highest} had been acknowledged"
                )
        return found

    def _not_owned_once(self, settled: Settled) -> list[str]:
        found = []
        for partition in range(self.partitions):
            owners = [name for name, of in settled.owned.items() if partition in of]
            if len(owners) != 1:
                found.append(
                    f"partition {partition}: owned by {' and '.join(owners) or 'nobody'} "
                    f"after {settled.what}"
                )
        return found
