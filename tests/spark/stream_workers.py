"""Workers of a stream as processes of their own have them, and rows for them."""

from __future__ import annotations

import functools
import importlib.util
from types import ModuleType

import pyarrow as pa
from support.story import SEED, START_MS, commit_body, row

from pykcoord import ArrowShard
from pykcoord.arrow import REQUEST


def another_worker() -> ModuleType:
    """The module as another process has it."""
    spec = importlib.util.find_spec("pykcoord_spark.worker")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.ArrowShard = functools.partial(ArrowShard, seed=SEED)  # type: ignore[attr-defined]
    return module


def commits(first: int, count: int = 3, ts: int = START_MS) -> pa.Table:
    numbers = range(first, first + count)
    return pa.Table.from_pylist(
        [row(n, ts + n, "billing", (8, 7), commit_body("billing", 0, n)) for n in numbers],
        REQUEST,
    )
