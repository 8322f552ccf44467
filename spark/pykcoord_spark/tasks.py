"""The first step of every task, in the worker that runs it."""

from __future__ import annotations

import gc

__all__ = ["begin_task"]

_frozen = False


def begin_task() -> None:
    """Takes all objects so far, mainly modules, out of Python's garbage collection. A worker of
    Spark collects after each task, among everything that it has imported: 50 ms of CPU with pyarrow
    and pandas, more than a small task takes. Later objects are collected as before. To be called
    when the modules that the task needs are imported; the first call counts.
    """
    global _frozen
    if not _frozen:
        gc.collect()
        gc.freeze()
        _frozen = True
