"""Numbers as text, with neighbours together."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["ranges"]


def ranges(numbers: Iterable[int]) -> str:
    """`0-2,5` for 0, 1, 2 and 5, in any order; of none it is empty."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(f"{first}-{last}" if last > first else f"{first}" for first, last in runs)
