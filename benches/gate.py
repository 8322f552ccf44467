"""Gates: ratios between two ways to do the same work, taken in turns within one run.

A ratio of CPU times holds on a slow machine as on a fast one; wall-clock means are reported by
pytest-benchmark and never gated on.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass

ROUNDS = 3

# Prepares (untimed) and returns the work to time.
Prepare = Callable[[], Callable[[], object]]


@dataclass(frozen=True)
class Size:
    name: str  # full, small or smoke

    @property
    def is_smoke(self) -> bool:
        return self.name == "smoke"

    def of(self, full: int, smoke: int) -> int:
        return {"full": full, "small": max(full // 5, smoke), "smoke": smoke}[self.name]

    def hold(self, condition: bool, told: str) -> None:
        """Fail unless the gate is met; a smoke run measures too little to say."""
        assert self.is_smoke or condition, told


def best_seconds(**works: Prepare) -> dict[str, float]:
    """The least CPU seconds of this process for each, measured in turns."""
    best = dict.fromkeys(works, float("inf"))
    for _ in range(ROUNDS):
        for name, prepare in works.items():
            work = prepare()
            gc.collect()
            gc.disable()
            since = time.process_time()
            work()
            best[name] = min(best[name], max(time.process_time() - since, 1e-9))
            gc.enable()
    return best


def rates(counts: dict[str, int], seconds: dict[str, float]) -> dict[str, float]:
    """Per CPU second."""
    return {name: counts[name] / seconds[name] for name in counts}


def told(per_second: dict[str, float], unit: str) -> str:
    return ", ".join(f"{name} {rate:,.0f} {unit}/s" for name, rate in per_second.items())
