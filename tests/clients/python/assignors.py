"""Which assignor class a Python client is to be given, by the name in the test's request.

Must import pykcoord only when a drop-in is asked for: the clients' own need nothing of it.
"""

from __future__ import annotations

import importlib
import runpy
from collections.abc import Mapping
from typing import Any

_DROP_INS = {
    "range": "RangeAssignor",
    "roundrobin": "RoundRobinAssignor",
    "sticky": "StickyAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}


def find(assignor: str, own: Mapping[str, Any], drop_ins: str) -> Any:
    """`own`: the client's own by name; `drop_ins`: the module of pykcoord with the others."""
    place, _, name = assignor.rpartition(":")
    if not place:
        return own[name]
    module = importlib.import_module(drop_ins)
    if place == "pykcoord":
        return getattr(module, _DROP_INS[name])
    return module.drop_in(runpy.run_path(place)[name])
