"""What only looks on: metrics, what hears of events, the observer of a log's writer.

One rule for all of them: whatever an observer raises, `SystemExit` included, is logged, and neither
the loop nor a thread that called it ends, nor is any of its work left out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import ParamSpec

__all__ = ["in_steps", "tell"]

logger = logging.getLogger("pykcoord.observers")

P = ParamSpec("P")


def tell(observe: Callable[P, object], *arguments: P.args, **named: P.kwargs) -> None:
    """Call an observer, by the rule above."""
    try:
        observe(*arguments, **named)
    except BaseException:
        logger.exception("an observer failed: %r", observe, extra={"event": "failure"})


def in_steps(work: Iterator[None]) -> Iterator[None]:
    """The steps of what an observer does in steps, by the rule above."""
    try:
        yield from work
    except GeneratorExit:
        raise
    except BaseException:
        logger.exception("an observer failed: %r", work, extra={"event": "failure"})
