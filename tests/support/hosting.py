"""What tests of clusters have in common: a store that fails, fields of a commit, and waiting."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

CONFIG = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "1000"}


class FaultyStore:
    """Objects in a dict; `faults` says of the next creates of entries what becomes of them."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.faults: list[str] = []
        self._gate = threading.Lock()

    def create(self, name: str, content: bytes) -> bool:
        with self._gate:
            fault = self.faults.pop(0) if self.faults and self._is_entry(name) else ""
            if fault == "before":
                raise OSError("no connection")
            made = self.objects.setdefault(name, content) is content
            if fault == "after":
                raise OSError("no answer")
            return made

    @staticmethod
    def _is_entry(name: str) -> bool:
        return "/chunks/" in name or name.startswith("nodes/")

    def read(self, name: str) -> bytes | None:
        return self.objects.get(name)

    def names(self, folder: str) -> list[str]:
        below = (name.removeprefix(f"{folder}/") for name in [*self.objects] if folder in name)
        return sorted(name for name in below if "/" not in name)

    def delete(self, name: str) -> None:
        self.objects.pop(name, None)


def commit_fields(group_id: str, offset: int) -> dict[str, Any]:
    partition = {
        "partition_index": 0,
        "committed_offset": offset,
        "committed_leader_epoch": -1,
        "committed_metadata": "",
    }
    return {
        "group_id": group_id,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "group_instance_id": None,
        "topics": [{"name": "orders", "topic_id": None, "partitions": [partition]}],
    }


def wait_until(condition: Callable[[], Any], seconds: float = 60.0) -> Any:
    """The first true value of `condition()`."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.01)
    return found
