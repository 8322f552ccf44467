"""What happens often and is logged rarely."""

from __future__ import annotations

from pykcoord.clock import monotonic_seconds


class Rarely:
    """Says, at most once in `seconds`, how often something has happened since it said so."""

    def __init__(self, seconds: float = 60.0) -> None:
        self._seconds = seconds
        self._next: float | None = None
        self._count = 0

    def happened(self) -> int:
        """It has happened once more: how often since it was last logged, or 0 if it is not due."""
        self._count += 1
        now = monotonic_seconds()
        if self._next is not None and now < self._next:
            return 0
        self._next = now + self._seconds
        count, self._count = self._count, 0
        return count
