"""What comes about by itself is waited for."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable

# For all that needs nothing but its turn: much longer than it takes, as machines are busy.
SECONDS = 60.0


def eventually(condition: Callable[[], object], seconds: float = SECONDS) -> None:
    """Members act by themselves: wait until they have. Raises AssertionError with the condition and
    all that it looks at."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not in {seconds:g} s: {_told(condition)}"
        time.sleep(0.005)


def _told(condition: Callable[[], object]) -> str:
    try:
        text = " ".join(inspect.getsource(condition).split())
        seen = inspect.getclosurevars(condition).nonlocals
    except (OSError, TypeError):  # no function of a file
        return repr(condition)
    return f"{text}; {', '.join(f'{name} is {value!r}' for name, value in seen.items())}"
