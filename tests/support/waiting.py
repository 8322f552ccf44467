"""What comes about by itself is waited for."""

from __future__ import annotations

import time
from collections.abc import Callable

SECONDS = 20.0


def eventually(condition: Callable[[], bool]) -> None:
    """Members act by themselves: wait until they have, or give up."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.005)
