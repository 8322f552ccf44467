"""How much of something is in use, of how much there may be."""

from __future__ import annotations


class Budget:
    """A number that is taken from and given back; not thread-safe."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.taken = 0

    @property
    def has_room(self) -> bool:
        """Whether not more is taken than there may be."""
        return self.taken <= self.most

    def take(self, size: int) -> None:
        """Take `size`, whether there is room or not: ask `has_room`."""
        self.taken += size

    def give(self, size: int) -> None:
        """Give back what was taken."""
        self.taken -= size
