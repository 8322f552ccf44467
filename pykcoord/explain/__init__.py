"""Why a group rebalanced: a story and its patterns, from events. Reads no clock and no file."""

from __future__ import annotations

from pykcoord.explain.patterns import PATTERNS, Pattern
from pykcoord.explain.rebalances import Rebalance
from pykcoord.explain.report import Cost, Report, costliest, costliest_of, explain

__all__ = [
    "PATTERNS",
    "Cost",
    "Pattern",
    "Rebalance",
    "Report",
    "costliest",
    "costliest_of",
    "explain",
]
