"""Faults of the code inside a real process: Python imports this where the folder is in PYTHONPATH.

A file in the folder that `KCOORD_TEST_FAULTS` names is a fault, once: the process that takes it
away has it. See `support.faulty`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pykcoord.cluster import driving, journals
from pykcoord.runtime import Runtime

_FOLDER = Path(os.environ["KCOORD_TEST_FAULTS"])


def _is_struck(fault: str) -> bool:
    try:
        (_FOLDER / fault).unlink()
    except FileNotFoundError:
        return False
    return True


def _raising(fault: str, of: type, name: str) -> None:
    """Have a method raise before it does anything."""
    method = getattr(of, name)

    def raises(self: Any, *arguments: Any, **named: Any) -> Any:
        if _is_struck(fault):
            raise AssertionError(f"a fault in {fault}")
        return method(self, *arguments, **named)

    setattr(of, name, raises)


def _hear(self: driving.Driver, said: Callable[[], None]) -> None:
    def raises() -> None:
        raise AssertionError("a fault in callback")

    _heard(self, raises if _is_struck("callback") else said)


def _asked(self: driving.Driver, ask: tuple[Any, ...], topics: int) -> tuple[tuple[Any, ...], int]:
    answer, known = _answered(self, ask, topics)
    return (("no answer",) if (_FOLDER / "answers").exists() else answer), known


_heard, driving.Driver._hear = driving.Driver._hear, _hear
_answered, driving.Driver.asked = driving.Driver.asked, _asked
_raising("tick", driving.Driver, "is_told_news")
_raising("metrics", driving.Watch, "look")
_raising("action", driving.Driver, "_do_follow")
_raising("task", driving.Driver, "_in_thread")
_raising("asked", driving.Driver, "_hear_topics")
_raising("journal", journals.JournalLog, "_new_parts")
_raising("turn", Runtime, "_turn")
_raising("appended", Runtime, "_appended")
