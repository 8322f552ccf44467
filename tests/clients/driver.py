"""Steers a client program from a test. Must never talk to the server under test itself.

A program hosts consumers of one client library. It reads requests from stdin, one JSON object a
line, and writes replies and events to stdout:

    {"id": 1, "op": "open", "consumer": NAME, "bootstrap": "HOST:PORT,..", "group": ..,
     "topics": [..], "pattern": regex or null,
     "protocol": "classic" | "consumer",
                 the latter in confluent, java and franz-go; then the server has the say about
                 assignor, session_timeout_ms and heartbeat_interval_ms, and pattern is for the
                 server where the library lets it,
     "assignor": "range" | "roundrobin" | "sticky" | "cooperative-sticky",
                 in kafka-python and aiokafka also "pykcoord:" and one of these, the drop-in, or
                 "FILE.py:NAME", a class of one's own dropped in,
     "server_assignor": group.remote.assignor or null, of confluent and java,
     "instance": group.instance.id or null, "reset": "earliest" | "latest",
     "session_timeout_ms": .., "heartbeat_interval_ms": .., "rebalance_timeout_ms": ..,
     "metadata_max_age_ms": ..}                        subscribe, and poll until told otherwise
    {"id": 2, "op": "commit", "consumer": NAME, "offsets": [[topic, partition, offset], ..]}
    {"id": 3, "op": "committed", "consumer": NAME, "partitions": [[topic, partition], ..]}
    {"id": 4, "op": "started", "consumer": NAME, "partitions": [[topic, partition], ..]}
                                                       where it began to fetch each partition
    {"id": 5, "op": "read", "consumer": NAME}          what its application was given, in rows of
                                                       [topic, partition, next offset, how many
                                                       came twice, how many were left out]
    {"id": 6, "op": "close", "consumer": NAME}         as an application closes its consumer

    {"id": 3, "result": ...} or {"id": 3, "error": "..."}
    {"event": "assigned" | "revoked" | "lost", "consumer": NAME, "partitions": [[t, p], ..],
     "assignment": [[t, p], ..]}                       assignment: all it owns afterwards
    {"event": "failed", "consumer": NAME, "error": "..."}        it has given up
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

Partition = tuple[str, int]
WAIT_S = 60.0
ANSWER_S = 15.0  # of a program that has to ask nobody
# What sarama says where the node that it tells is being killed, or is not the coordinator any more.
_AWAY = ("connection refused", "EOF", "not coordinated by this broker")
# One for all programs: what a test waits for may be said by any of them.
_CHANGED = threading.Condition()


class Event(NamedTuple):
    """Something that a consumer told about itself, with the time it was heard (monotonic)."""

    kind: str
    partitions: frozenset[Partition]
    assignment: frozenset[Partition]
    error: str
    heard_at: float


class Read(NamedTuple):
    """What the application of a consumer was given of a partition, from its first record on."""

    next: int
    doubled: int
    skipped: int


class ClientError(RuntimeError):
    """A request that the client library answered with an exception."""


class Program:
    """One running client program."""

    def __init__(self, library: str, command: Sequence[str], stderr: Path) -> None:
        self.library = library
        self.stderr = stderr
        with stderr.open("ab") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        self._consumers: dict[str, ClientConsumer] = {}
        self._replies: dict[int, dict[str, Any]] = {}
        self._next_id = 0
        self._ended = False
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def open(self, name: str, **settings: Any) -> ClientConsumer:
        consumer = self._consumers[name] = ClientConsumer(self, name)
        self.request("open", consumer=name, **settings)
        return consumer

    def request(self, op: str, *, timeout_s: float = WAIT_S, **fields: Any) -> Any:
        """Sends one request and waits for its reply; raises ClientError for an error."""
        with _CHANGED:
            self._next_id += 1
            number = self._next_id
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps({"id": number, "op": op, **fields}) + "\n")
            self._process.stdin.flush()
        what = f"reply to {op} of {fields.get('consumer')}"
        self.wait(lambda: number in self._replies, what, timeout_s)
        reply = self._replies.pop(number)
        if "error" in reply:
            raise ClientError(reply["error"])
        return reply["result"]

    def answers(self) -> bool:
        """Whether it does anything at all: no server has a part in this."""
        with contextlib.suppress(TimeoutError):
            consumer = next(iter(self._consumers))
            self.request("started", timeout_s=ANSWER_S, consumer=consumer, partitions=[])
            return True
        return False

    def wait(self, condition: Callable[[], bool], what: str, timeout_s: float = WAIT_S) -> None:
        with _CHANGED:
            if not _CHANGED.wait_for(lambda: condition() or self._ended, timeout_s):
                raise TimeoutError(f"{self.library}: {what}: not in {timeout_s} s; {self._state()}")
            if not condition():
                raise RuntimeError(f"{self.library}: ended, waiting for {what}; see {self.stderr}")

    def _state(self) -> str:
        return "; ".join(
            f"{consumer.name} has {sorted(consumer.assignment)}"
            + (f", gave up with {consumer.failure}" if consumer.failure else "")
            for consumer in self._consumers.values()
            if consumer.is_open
        )

    def kill(self) -> None:
        """SIGKILL: every consumer of the program is gone without a word."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Ends the program; consumers that are still open go down with it."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        self._process.stdin.close()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                heard_at = time.monotonic()
                message = json.loads(line)
                with _CHANGED:
                    if "id" in message:
                        self._replies[message["id"]] = message
                    else:
                        self._consumers[message["consumer"]].hear(message, heard_at)
                    _CHANGED.notify_all()
        with _CHANGED:
            self._ended = True
            _CHANGED.notify_all()


class ClientConsumer:
    """A consumer inside a program, as the test sees it."""

    def __init__(self, program: Program, name: str) -> None:
        self.program = program
        self.name = name
        self.events: list[Event] = []
        self.is_open = True

    @property
    def assignment(self) -> frozenset[Partition]:
        return self.events[-1].assignment if self.events else frozenset()

    @property
    def failure(self) -> str | None:
        return next((event.error for event in self.events if event.kind == "failed"), None)

    def wait_assignment(
        self,
        condition: Callable[[frozenset[Partition]], bool],
        what: str,
        timeout_s: float = WAIT_S,
    ) -> frozenset[Partition]:
        self.program.wait(lambda: condition(self.assignment), f"{self.name}: {what}", timeout_s)
        return self.assignment

    def wait_failed(self) -> str:
        self.program.wait(lambda: self.failure is not None, f"{self.name} fails")
        assert self.failure is not None
        return self.failure

    def commit(self, offsets: dict[Partition, int]) -> None:
        rows = [[*partition, offset] for partition, offset in sorted(offsets.items())]
        self.program.request("commit", consumer=self.name, offsets=rows)

    def committed(self, partitions: Iterable[Partition]) -> dict[Partition, int | None]:
        return self._offsets("committed", partitions)

    def started(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Waits until the consumer fetches from all the partitions and returns where it began."""
        deadline = time.monotonic() + WAIT_S
        while None in (starts := self._offsets("started", partitions)).values():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.name}: not fetching yet: {starts}")
            time.sleep(0.02)
        return {partition: start for partition, start in starts.items() if start is not None}

    def read(self) -> dict[Partition, Read]:
        rows = self.program.request("read", consumer=self.name)
        return {(topic, partition): Read(*counts) for topic, partition, *counts in rows}

    def close(self) -> None:
        """As its application does; sarama says that the node that it wanted to tell is away, and
        kafkajs may need to be killed."""
        self.is_open = False
        try:
            self.program.request("close", consumer=self.name)
        except ClientError as error:
            if not any(reason in str(error) for reason in _AWAY):
                raise
        except TimeoutError:
            # kafkajs runs in a circle for ever (docs/spec/client-pitfalls.md, item 24).
            if self.program.library != "kafkajs" or self.program.answers():
                raise
            self.program.kill()

    def hear(self, message: dict[str, Any], heard_at: float) -> None:
        self.events.append(
            Event(
                kind=message["event"],
                partitions=_partitions(message.get("partitions", [])),
                assignment=_partitions(message["assignment"])
                if "assignment" in message
                else self.assignment,
                error=message.get("error", ""),
                heard_at=heard_at,
            )
        )

    def _offsets(self, op: str, partitions: Iterable[Partition]) -> dict[Partition, int | None]:
        rows = [list(partition) for partition in sorted(partitions)]
        result = self.program.request(op, consumer=self.name, partitions=rows)
        return {(topic, partition): offset for topic, partition, offset in result}


def _partitions(rows: list[list[Any]]) -> frozenset[Partition]:
    return frozenset((topic, partition) for topic, partition in rows)
