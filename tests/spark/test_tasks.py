"""The objects that a task hides from Python's garbage collector."""

from __future__ import annotations

import gc
import weakref

import pytest

pytest.importorskip("pyspark")
from pykcoord_spark.tasks import begin_task


class Loop:
    """Garbage that only the collector finds."""

    def __init__(self) -> None:
        self.itself = self


def test_what_is_loaded_is_left_out_once() -> None:
    before = gc.get_freeze_count()
    begin_task()
    frozen = gc.get_freeze_count()
    assert frozen > before + 10_000
    kept = [Loop() for _ in range(100)]
    begin_task()
    assert gc.get_freeze_count() <= frozen
    assert len(kept) == 100


def test_garbage_before_and_after_is_collected() -> None:
    before = weakref.ref(Loop())
    begin_task()
    after = weakref.ref(Loop())
    assert before() is None
    assert after() is not None
    gc.collect()
    assert after() is None
