"""The side of a client program that speaks lines of JSON with the test that steers it.

Runs as a plain script beside its client library; must never import anything of the project.
The protocol is described in `tests/clients/driver.py`.
"""

from __future__ import annotations

import json
import queue
import sys
import threading
from collections.abc import Callable
from typing import Any

Partition = tuple[str, int]
_OUTPUT = threading.Lock()
_POLL_S = 0.05


def say(**message: Any) -> None:
    """Writes one message to the test; safe from any thread."""
    line = json.dumps(message)
    with _OUTPUT:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def reply(request: dict[str, Any], action: Callable[[], Any]) -> None:
    """Answers a request with the result of `action`, or with the error it raised."""
    try:
        say(id=request["id"], result=action())
    except Exception as error:
        say(id=request["id"], error=f"{type(error).__name__}: {error}")


class Owned:
    """The partitions that a consumer believes to own; each change is reported to the test."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.partitions: set[Partition] = set()

    def add(self, partitions: list[Partition]) -> None:
        self.partitions |= set(partitions)
        self._tell("assigned", partitions)

    def remove(self, event: str, partitions: list[Partition]) -> None:
        self.partitions -= set(partitions)
        self._tell(event, partitions)

    def _tell(self, event: str, partitions: list[Partition]) -> None:
        say(event=event, consumer=self.name, partitions=sorted(partitions),
            assignment=sorted(self.partitions))  # fmt: skip


class Read:
    """What an application was given: of each partition the offset after the last record, how many
    came twice, and how many were left out."""

    def __init__(self) -> None:
        self._counts: dict[Partition, list[int]] = {}

    def add(self, topic: str, partition: int, offset: int) -> None:
        counts = self._counts.setdefault((topic, partition), [0, 0, 0])
        if offset < counts[0]:
            counts[1] += 1
        else:
            counts[2] += offset - counts[0]
            counts[0] = offset + 1

    def rows(self) -> list[list[Any]]:
        return [[*partition, *counts] for partition, counts in sorted(self._counts.items())]


class PollingConsumer(threading.Thread):
    """A consumer on a thread of its own: it polls, and carries out commands between two polls.

    A subclass opens its library's consumer in `open` and defines the verbs below.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__(daemon=True)
        self.settings = settings
        self.owned = Owned(settings["consumer"])
        self.read = Read()
        self.requests: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()

    def open(self) -> None:
        raise TypeError("a subclass opens its consumer")

    def poll(self, timeout_s: float) -> None:
        raise TypeError("a subclass polls its consumer")

    def submit(self, request: dict[str, Any]) -> None:
        self.requests.put(request)

    def run(self) -> None:
        failed = False
        while True:
            if not failed:
                try:
                    self.poll(_POLL_S)
                except Exception as error:
                    failed = True
                    say(event="failed", consumer=self.owned.name, error=repr(error))
            while failed or not self.requests.empty():
                request = self.requests.get()
                reply(request, lambda request=request: self.perform(request))
                if request["op"] == "close":
                    return

    def do_read(self, request: dict[str, Any]) -> list[list[Any]]:
        return self.read.rows()

    def perform(self, request: dict[str, Any]) -> Any:
        verb = getattr(self, f"do_{request['op']}")
        return verb(request)


def serve(make: Callable[[dict[str, Any]], PollingConsumer]) -> None:
    """Reads requests until the test closes stdin."""
    consumers: dict[str, PollingConsumer] = {}

    def open_consumer(request: dict[str, Any]) -> None:
        consumer = make(request)
        consumer.open()
        consumers[request["consumer"]] = consumer
        consumer.start()

    for line in sys.stdin:
        request = json.loads(line)
        if request["op"] == "open":
            reply(request, lambda request=request: open_consumer(request))
        else:
            consumers[request["consumer"]].submit(request)
