"""A store of topics whose writes beside the loop wait for the test."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pykcoord.log.state_file import StateFile

_WITHIN_S = 60


class SlowStore(StateFile):
    """`begun` counts the writes that began; each goes on with a release of `go`. With `fails` the
    next does not succeed."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.begun = threading.Semaphore(0)
        self.go = threading.Semaphore(0)
        self.fails = False

    def write_parts(self, document: dict[str, Any], objects: Mapping[str, Iterable[str]]) -> None:
        if threading.current_thread() is not threading.main_thread():
            self.begun.release()
            assert self.go.acquire(timeout=_WITHIN_S)
        if self.fails:
            self.fails = False
            raise OSError(28, "No space left on device")
        super().write_parts(document, objects)


async def written(store: SlowStore) -> None:
    """A write has begun, beside the loop."""
    assert await asyncio.to_thread(store.begun.acquire, timeout=_WITHIN_S)
