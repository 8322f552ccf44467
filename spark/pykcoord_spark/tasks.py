"""What every task does first, in the worker that runs it."""

from __future__ import annotations

import gc

__all__ = ["begin_task"]

_frozen = False


def begin_task() -> None:
    """Leaves out what is loaded by now, modules above all, when Python looks for garbage.

    A worker of Spark looks for it after each task, among all that was ever imported: 50 ms of CPU
    with pyarrow and pandas there, more than a small task takes. What comes later is looked at as
    before. To be called when the modules that the task needs are imported; the first call counts.
    """
    global _frozen
    if not _frozen:
        gc.collect()
        gc.freeze()
        _frozen = True
